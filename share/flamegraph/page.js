/* SPDX-License-Identifier: MIT
 *
 * Builds the tree of a profile and draws what of it can be seen at the current
 * zoom: a picture of 100,000 stacks then has some thousand boxes. */
"use strict";
(function () {
  const profile = JSON.parse(document.getElementById("profile").textContent);
  const STATES = [
    ["N", "compiled code", "#7fc97f"],
    ["I", "interpreter", "#fdc086"],
    ["C", "native code", "#8fb8de"],
    ["G", "garbage collector", "#f08a8a"],
    ["J", "JIT compiler", "#c7a6e0"],
    ["", "no state given", "#d9d9d9"],
  ];
  const KINDS = {
    zone: ["zone, thread or process", "#ffe680"],
    lua: ["Lua function", "#7fc97f"],
    builtin: ["builtin", "#fdc086"],
    native: ["native function", "#8fb8de"],
    mark: ["mark", "#d9d9d9"],
  };
  const FOUND = "#e600e6";
  const SMALLEST = 0.4; // pixels: what is narrower is not drawn
  const BUILTIN = /^(string|table|coroutine|math|io|os|ffi|bit|jit|debug)\.[\w.]+$|^(pcall|xpcall|ipairs|pairs|next|tostring|tonumber|unpack|select|setmetatable|getmetatable|error|require|load|dofile|loadfile|loadstring|print|type|rawget|rawset|collectgarbage)$|^\[builtin:/;
  const element = (id) => document.getElementById(id);

  function kindOf(name) {
    if (/^main chunk \(.*\)$| \(.*:(\d+|\?)\)$/.test(name)) return "lua";
    if (BUILTIN.test(name)) return "builtin";
    return /^\[.*\]$/.test(name) && name !== "[vdso]" ? "mark" : "native";
  }
  const kinds = profile.frames.map(kindOf);

  function newNode(parent, frame, kind) {
    return { parent, frame, kind, value: 0, self: 0, states: [0, 0, 0, 0, 0, 0], children: new Map() };
  }

  function child(node, frame, zone) {
    const key = zone ? -1 - frame : frame; // a zone may be called like a function
    let c = node.children.get(key);
    if (!c) node.children.set(key, (c = newNode(node, frame, zone ? "zone" : kinds[frame])));
    return c;
  }

  function count(node, weight, state) {
    node.value += weight;
    node.states[state] += weight;
  }

  // Each stack: frames kept of the one before, where its zones end, state, count,
  // then its other frames.
  function build(inverted) {
    const root = newNode(null, -1, "mark");
    let stack = [];
    for (const s of profile.stacks) {
      stack = stack.slice(0, s[0]).concat(s.slice(4));
      const zones = s[1], state = s[2], weight = s[3];
      let node = root;
      count(node, weight, state);
      for (let i = 0; i < stack.length; i++) {
        const at = inverted ? stack.length - 1 - i : i;
        node = child(node, stack[at], at < zones);
        count(node, weight, state);
      }
      node.self += weight;
    }
    return root;
  }

  const nameOf = (node) => (node.frame < 0 ? "all" : profile.frames[node.frame]);
  const percent = (n) => (profile.total ? (100 * n) / profile.total : 0).toFixed(2) + " %";

  let trees = {}, focus, found = null;
  const inverted = () => element("inverted").checked;
  function tree() {
    const key = inverted() ? "inverted" : "plain";
    return trees[key] || (trees[key] = build(inverted()));
  }

  function describe(d) {
    const node = d.data.node;
    const states = node.states
      .map((n, i) => (n ? STATES[i][1] + " " + ((100 * n) / node.value).toFixed(0) + " %" : ""))
      .filter(Boolean);
    return nameOf(node) + "\n" + percent(node.value) + " of all, " + node.value + " samples" +
      (inverted() ? "" : ", self " + node.self) + "\n" + states.join(", ");
  }

  function colour(d) {
    const node = d.data.node;
    if (found && found.has(node)) return FOUND;
    if (node.kind === "zone") return KINDS.zone[1];
    if (node.kind === "mark") return KINDS.mark[1];
    if (element("colour").value === "kind") return KINDS[node.kind][1];
    return STATES[node.states.indexOf(Math.max(...node.states))][2];
  }

  // What can be seen of a node, for the library.
  function visible(node, least) {
    const shown = { name: nameOf(node), value: node.value, node, children: [] };
    for (const c of node.children.values())
      if (c.value >= least) shown.children.push(visible(c, least));
    return shown;
  }

  const width = () => Math.max(300, element("chart").clientWidth);
  let chart = null;
  function draw() {
    let data = visible(focus, (focus.value * SMALLEST) / width());
    for (let up = focus.parent; up; up = up.parent)
      data = { name: nameOf(up), value: data.value, node: up, fade: true, children: [data] };
    if (chart) chart.destroy();
    chart = flamegraph()
      .width(width())
      .cellHeight(18)
      .transitionDuration(0)
      .inverted(inverted())
      .sort((a, b) => (a.data.name < b.data.name ? -1 : a.data.name > b.data.name ? 1 : 0))
      .setLabelHandler(describe)
      .setColorMapper(colour)
      .setDetailsElement(element("details"))
      .onClick((d) => zoom(d.data.node));
    d3.select("#chart").datum(data).call(chart);
    element("reset").disabled = !focus.parent;
  }

  function zoom(node) {
    focus = node;
    draw();
  }

  function matcher(term) {
    const regex = /^\/(.+)\/$/.exec(term);
    if (!regex) return (name) => name.toLowerCase().includes(term.toLowerCase());
    const r = new RegExp(regex[1]);
    return (name) => r.test(name);
  }

  // Frames that fit, and the samples with one of them in their stack.
  function search() {
    const term = element("search").value;
    found = null;
    element("found").textContent = "";
    if (term) {
      let fits;
      try {
        fits = matcher(term);
      } catch (e) {
        element("found").textContent = "no regular expression";
        draw();
        return;
      }
      const names = profile.frames.map(fits);
      found = new Set();
      let sum = 0;
      const todo = [[tree(), false]];
      while (todo.length) {
        const [node, below] = todo.pop();
        const hit = node.frame >= 0 && names[node.frame];
        if (hit) found.add(node);
        if (hit && !below) sum += node.value;
        for (const c of node.children.values()) todo.push([c, below || hit]);
      }
      element("found").textContent = percent(sum) + " of all, " + sum + " samples";
    }
    draw();
  }

  function legend() {
    const parts = element("colour").value === "kind"
      ? Object.values(KINDS)
      : STATES.map((s, i) => [s[1] + " " + percent(tree().states[i]), s[2]])
          .filter((s, i) => tree().states[i]).concat([KINDS.zone]);
    const box = element("legend");
    box.textContent = "";
    for (const [text, colour] of parts) {
      const span = box.appendChild(document.createElement("span"));
      span.appendChild(document.createElement("i")).style.background = colour;
      span.appendChild(document.createTextNode(text));
    }
  }

  function restart() {
    focus = tree();
    legend();
    search();
  }

  element("bar").addEventListener("submit", (e) => e.preventDefault());
  element("search").addEventListener("input", search);
  element("inverted").addEventListener("change", restart);
  element("colour").addEventListener("change", () => { legend(); draw(); });
  element("reset").addEventListener("click", () => zoom(tree()));
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") zoom(tree());
  });
  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(draw, 100);
  });
  restart();
  document.body.dataset.drawn = document.querySelectorAll(".frame").length;
})();
