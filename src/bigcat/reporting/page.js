"use strict";
// Theme, class table, class details and class map. Names of classes are set as text, never markup.
const byId = (id) => document.getElementById(id);
const format = (value, key) => {
  if (value === null || value === undefined) return "–";
  return key === "train" || key === "test" || key === "predicted"
    ? value.toLocaleString("en") : typeof value === "number" ? value.toFixed(3) : value;
};
const counted = (n) => `${n.toLocaleString("en")} ${n === 1 ? "class" : "classes"}`;
const element = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};

function theme() {
  const button = byId("theme"), root = document.documentElement;
  const set = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark));
    document.dispatchEvent(new Event("theme"));
  };
  set(matchMedia("(prefers-color-scheme: dark)").matches);
  button.addEventListener("click", () => set(root.dataset.theme !== "dark"));
  let before = false;
  addEventListener("beforeprint", () => { before = root.dataset.theme === "dark"; set(false); });
  addEventListener("afterprint", () => set(before));  // paper is white, whatever the screen is
}

async function unpack() {
  const bytes = Uint8Array.from(atob(byId("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function table(classes) {
  const HEIGHT = 28, scroll = byId("scroll"), body = byId("table").tBodies[0];
  const heads = [...byId("table").tHead.rows[0].cells];
  const keys = heads.map((head) => head.dataset.key);
  const lower = classes.names.map((name) => name.toLowerCase());
  let order = classes.names.map((_, k) => k), shown = order, sorted = null, down = true;

  const draw = () => {
    const first = Math.max(0, Math.floor(scroll.scrollTop / HEIGHT) - 10);
    const part = shown.slice(first, first + Math.ceil(scroll.clientHeight / HEIGHT) + 20);
    const rows = part.map((k, i) => {
      const row = element("tr");
      row.setAttribute("aria-rowindex", first + i + 2);
      keys.forEach((key, c) => {
        row.append(element("td", format(classes[key][k], key), heads[c].className));
      });
      return row;
    });
    const space = (rows) => {
      const row = element("tr"), cell = element("td");
      row.setAttribute("aria-hidden", "true");
      cell.style.cssText = `height:${rows * HEIGHT}px;padding:0`;
      row.append(cell);
      return row;
    };
    body.replaceChildren(space(first), ...rows, space(shown.length - first - part.length));
    byId("table").setAttribute("aria-rowcount", shown.length + 1);
    byId("found").textContent = counted(shown.length);
  };
  const search = () => {
    const word = byId("search").value.toLowerCase();
    shown = word ? order.filter((k) => lower[k].includes(word)) : order;
    scroll.scrollTop = 0;
    draw();
  };
  const sort = (key) => {
    down = sorted === key ? !down : key !== "names";
    sorted = key;
    const column = key === "names" ? lower : classes[key], sign = down ? -1 : 1;
    const compare = (a, b) => (a < b ? -sign : a > b ? sign : 0);
    order = [...order].sort((a, b) => {
      const [x, y] = [column[a], column[b]];
      if (x === null || y === null) return (x === null) - (y === null); // unknown ones come last
      return compare(x, y) || a - b;
    });
    heads.forEach((head) => head.setAttribute("aria-sort",
      head.dataset.key === key ? (down ? "descending" : "ascending") : "none"));
    search();
  };
  heads.forEach((head) => head.firstChild.addEventListener("click", () => sort(head.dataset.key)));
  byId("search").addEventListener("input", search);
  scroll.addEventListener("scroll", () => requestAnimationFrame(draw));
  sort(keys.includes("train") ? "train" : "test");
}

function details(classes, found) {
  const places = new Map(found.map((one) => [classes.names[one.class], one]));
  byId("picks").append(...found.map((one) => {
    const option = element("option");
    option.value = classes.names[one.class];
    return option;
  }));
  const list = (title, heads, rows) => {
    const made = element("table"), top = element("tr");
    made.append(element("caption", title));
    heads.forEach((head) => top.append(element("th", head)));
    made.append(top);
    rows.forEach((cells) => {
      const row = element("tr");
      cells.forEach((cell) => row.append(element("td", format(cell))));
      made.append(row);
    });
    return made;
  };
  const show = () => {
    const one = places.get(byId("pick").value), box = byId("details");
    if (!one) {
      box.replaceChildren(element("p", "No such class among those that have details."));
      return;
    }
    box.replaceChildren(
      list("Features that speak for and against it", ["feature", "weight"], one.features),
      list("Classes that are alike", ["class", "similarity"],
        one.near.map(([k, value]) => [classes.names[k], value])),
    );
  };
  byId("pick").value = found.length ? classes.names[found[0].class] : "";
  byId("pick").addEventListener("change", show);
  show();
}

function map(classes, found) {
  const canvas = byId("map"), pen = canvas.getContext("2d");
  let zoom = 1, centre = [0, 0], matches = new Set(), held = null;
  const scale = () => Math.min(canvas.width, canvas.height) / 2.1 * zoom;
  const place = (i) => [
    canvas.width / 2 + (found.x[i] - centre[0]) * scale(),
    canvas.height / 2 - (found.y[i] - centre[1]) * scale(),
  ];
  const outside = (x, y) => x < 0 || y < 0 || x > canvas.width || y > canvas.height;
  const draw = () => {
    const ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const usual = Math.max(1.2, Math.min(4, 200 / Math.sqrt(found.x.length)));
    const size = usual * ratio * Math.min(2, Math.sqrt(zoom));
    const most = matches.size ? 40 : 25, boxes = [], dots = found.x.length > 20000;
    pen.font = `${11 * ratio}px system-ui`;
    for (let i = found.x.length - 1; i >= 0; i--) {
      const [x, y] = place(i);
      if (outside(x, y)) continue;
      const on = matches.has(i);
      pen.globalAlpha = matches.size && !on ? 0.15 : on ? 1 : 0.55;
      pen.fillStyle = style.getPropertyValue(on ? "--orange" : "--blue");
      if (dots && !on) {  // a circle of this size looks like a square, and takes far longer
        pen.fillRect(x - size, y - size, 2 * size, 2 * size);
        continue;
      }
      pen.beginPath();
      pen.arc(x, y, on ? size * 1.8 : size, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--ink");
    pen.strokeStyle = style.getPropertyValue("--paper");  // around names, to stand out
    pen.lineWidth = 3 * ratio;
    pen.lineJoin = "round";
    const tried = Math.min(found.x.length, matches.size ? Infinity : 1000);
    for (let i = 0; i < tried && boxes.length < most; i++) {  // the most frequent first
      const [x, y] = place(i);
      if ((matches.size && !matches.has(i)) || outside(x, y)) continue;
      const name = classes.names[found.numbers[i]].slice(0, 30);
      const right = x + size + 4 + pen.measureText(name).width, high = 12 * ratio;
      const hides = ([a, b, c]) => x < b && a < right && Math.abs(c - y) < high;
      if (boxes.some(hides)) continue;
      pen.strokeText(name, x + size + 2, y + 4);
      pen.fillText(name, x + size + 2, y + 4);
      boxes.push([x, right, y]);
    }
  };
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
    const [x, y] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    let best = -1, least = (12 * ratio) ** 2;
    for (let i = 0; i < found.x.length; i++) {
      const [a, b] = place(i), far = (a - x) ** 2 + (b - y) ** 2;
      if (far < least) [best, least] = [i, far];
    }
    return best;
  };
  const by = (factor) => { zoom = Math.min(200, Math.max(0.8, zoom * factor)); draw(); };
  const move = (x, y) => { centre = [centre[0] + x / zoom, centre[1] + y / zoom]; draw(); };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    by(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    held = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const unit = (devicePixelRatio || 1) / scale();
      const [x, y] = [event.clientX - held[0], event.clientY - held[1]];
      centre = [centre[0] - x * unit, centre[1] + y * unit];
      held = [event.clientX, event.clientY];
      draw();
    } else {
      const i = nearest(event);
      if (i >= 0) byId("hover").textContent = classes.names[found.numbers[i]];
    }
  });
  const keys = {
    ArrowLeft: () => move(-0.2, 0), ArrowRight: () => move(0.2, 0),
    ArrowUp: () => move(0, 0.2), ArrowDown: () => move(0, -0.2),
    "+": () => by(1.3), "-": () => by(1 / 1.3),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  byId("find").addEventListener("input", () => {
    const word = byId("find").value.toLowerCase();
    const holds = (k) => classes.names[k].toLowerCase().includes(word);
    matches = new Set(word ? found.numbers.flatMap((k, i) => (holds(k) ? [i] : [])) : []);
    if (matches.size) {
      const first = matches.values().next().value;
      centre = [found.x[first], found.y[first]];
      byId("hover").textContent = `${counted(matches.size)} found`;
    }
    draw();
  });
  byId("reset").addEventListener("click", () => {
    [zoom, centre, matches] = [1, [0, 0], new Set()];
    byId("find").value = "";
    draw();
  });
  addEventListener("resize", draw);
  document.addEventListener("theme", draw);
  draw();
}

theme();
if (byId("data").textContent) unpack().then((data) => {
  table(data.classes);
  details(data.classes, data.details);
  if (data.map) map(data.classes, data.map);
  document.documentElement.dataset.ready = "true";
});
