// SPDX-License-Identifier: MIT
//! rusthost SECONDS WORKERS: the shape of a Rust engine with LuaJIT inside.  The
//! main thread and each worker have a VM; every frame runs Rust, Lua, a Rust
//! function that Lua calls, and a Lua function that this one calls in turn.
//! Each part spins for a fixed share of the frame by the thread's CPU clock;
//! what it really got is printed as `truth THREAD.PART share`.
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

mod engine;
use engine::{cpu, Part, Spin, Turbine, World, PARTS};

const SCRIPT: &str = include_str!("game.lua");

type Shared = Rc<RefCell<World<Turbine>>>;

/// Lua -> Rust -> Lua: its own part, then the function that it was given.
fn install(lua: &mlua::Lua, world: &Shared) -> mlua::Result<()> {
    let g = lua.globals();
    g.set("cpu", lua.create_function(|_, ()| Ok(cpu()))?)?;
    let w = world.clone();
    let spent = move |_: &mlua::Lua, (part, s): (usize, f64)| {
        w.borrow_mut().spent[part] += s;
        Ok(())
    };
    g.set("spent", lua.create_function(spent)?)?;
    let w = world.clone();
    let middle = move |_: &mlua::Lua, f: mlua::Function| {
        w.borrow_mut().spin(Part::Middle);
        f.call::<()>(())
    };
    g.set("middle", lua.create_function(middle)?)?;
    let budget: Vec<f64> = PARTS.iter().map(|p| p.budget()).collect();
    g.set("budget", budget)
}

#[inline(never)]
fn frame(world: &Shared, tick: &mlua::Function) -> mlua::Result<()> {
    world.borrow_mut().spin(Part::Outer);
    tick.call::<()>(())
}

#[inline(never)]
fn run(name: &str, end: Instant) -> mlua::Result<String> {
    let world: Shared = Rc::new(RefCell::new(World::new(Turbine::default())));
    // SAFETY: no C modules but LuaJIT's own are loaded; jit and ffi are wanted.
    let lua = unsafe { mlua::Lua::unsafe_new() };
    if std::env::var_os("HOST_JIT_OFF").is_some() {
        lua.load("jit.off()").exec()?;
    }
    install(&lua, &world)?;
    lua.load(SCRIPT).set_name("@game/script.lua").exec()?;
    let tick: mlua::Function = lua.globals().get("tick")?;
    while Instant::now() < end {
        frame(&world, &tick)?;
    }
    let spent = world.borrow().spent;
    let sum: f64 = spent.iter().sum();
    let mut out = String::new();
    for (p, s) in PARTS.iter().zip(spent) {
        out += &format!("truth {name}.{} {:.4}\n", p.name(), s / sum);
    }
    Ok(out)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let secs: f64 = args.next().and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let workers: usize = args.next().and_then(|s| s.parse().ok()).unwrap_or(2);
    let end = Instant::now() + Duration::from_secs_f64(secs);
    println!("ready");
    let threads: Vec<_> = (1..=workers)
        .map(|i| {
            let name = format!("worker{i}");
            let body = move || run(&format!("worker{i}"), end).expect("a worker's script");
            std::thread::Builder::new().name(name).spawn(body).expect("a thread")
        })
        .collect();
    print!("{}", run("main", end).expect("the main script"));
    for t in threads {
        print!("{}", t.join().expect("a worker"));
    }
}
