// SPDX-License-Identifier: MIT
//! What the profile should show by name: methods of a trait, of a generic type,
//! and small ones that are inlined where debug information can tell.

#[derive(Clone, Copy)]
pub enum Part {
    Outer,
    Compiled,
    Middle,
    Callback,
}

pub const PARTS: [Part; 4] = [Part::Outer, Part::Compiled, Part::Middle, Part::Callback];

impl Part {
    pub fn name(self) -> &'static str {
        ["outer", "compiled", "middle", "callback"][self as usize]
    }
    /// Seconds of each frame.
    pub fn budget(self) -> f64 {
        [2e-3, 3e-3, 2e-3, 3e-3][self as usize]
    }
}

/// CPU seconds of this thread.
pub fn cpu() -> f64 {
    #[repr(C)]
    struct Timespec {
        sec: i64,
        nsec: i64,
    }
    extern "C" {
        fn clock_gettime(id: i32, out: *mut Timespec) -> i32;
    }
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut t = Timespec { sec: 0, nsec: 0 };
    // SAFETY: the C library's struct timespec on this platform.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.sec as f64 + t.nsec as f64 * 1e-9
}

pub trait Spin {
    fn spin(&mut self, part: Part);
}

#[derive(Default)]
pub struct Turbine {
    heat: f64,
}

impl Turbine {
    #[inline(always)]
    fn blade(&mut self, i: u32) {
        self.heat += 1.0 / (f64::from(i) + self.heat * 1e-9);
    }

    #[inline(always)]
    fn turn(&mut self) {
        for i in 1..2000 {
            self.blade(i);
        }
    }
}

pub struct World<T> {
    pub spent: [f64; PARTS.len()],
    engine: T,
}

impl<T> World<T> {
    pub fn new(engine: T) -> Self {
        World { spent: [0.0; PARTS.len()], engine }
    }
}

impl Spin for World<Turbine> {
    #[inline(never)]
    fn spin(&mut self, part: Part) {
        let begin = cpu();
        let end = begin + part.budget();
        let mut t = begin;
        while t < end {
            self.engine.turn();
            t = cpu();
        }
        self.spent[part as usize] += t - begin;
    }
}
