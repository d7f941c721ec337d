// Measures how often Chromium shows a page while its pointer drags: pages without the viewer, the empty viewer, and the viewer with a capture that it is given.
//
//   node pan.mjs TOOLS CHROMIUM WORK CAPTURE
//
// TOOLS has playwright-core in its node_modules, WORK holds the page in `viewer`; `.ci/web` makes both. Prints a line per page: milliseconds between frames while the pointer drags for some seconds (median,
// and the slowest of a hundred), and for the capture how long it took from the request to a settled picture. Nothing is checked: a processor that draws what a GPU should is as fast as it is.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [tools, executablePath, folder, capture] = process.argv.slice(2);
const work = path.resolve(folder);
const { chromium } = createRequire(path.resolve(tools) + '/')('playwright-core');
const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** A page with a canvas and nothing else; `draw` is done in each frame. */
const bare = (draw) => `<!doctype html><style>body{margin:0}canvas{width:100vw;height:100vh}</style><canvas width="1280" height="800"></canvas><script>
const gl = document.querySelector('canvas').getContext('webgl2', { alpha: false, antialias: false, depth: false, stencil: false });
let grey = 0;
const draw = () => { ${draw}; requestAnimationFrame(draw); };
requestAnimationFrame(draw);
</script>`;
const made = {
  '/nothing/': '<!doctype html><body style="height:100vh">',
  '/cleared/': bare('grey = (grey + 0.01) % 1; gl.clearColor(grey, grey, grey, 1); gl.clear(gl.COLOR_BUFFER_BIT)'),
};

const server = http.createServer((request, response) => {
  const wanted = decodeURIComponent(request.url.split('?')[0]);
  if (made[wanted]) return response.writeHead(200, { 'content-type': 'text/html' }).end(made[wanted]);
  const file = wanted === '/viewer/run.vor' ? capture : path.join(work, wanted.endsWith('/') ? `${wanted}index.html` : wanted);
  if (!fs.existsSync(file)) return response.writeHead(404).end();
  response.writeHead(200, { 'content-type': kinds[path.extname(file)] ?? 'application/octet-stream' });
  fs.createReadStream(file).pipe(response);
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist'],
});

const SECONDS = 5;

/** Drags over the page, and prints the time between its frames. */
async function drag(what, address, ready) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  const begin = performance.now();
  await page.goto(`${origin}${address}`);
  await ready(page);
  const loaded = performance.now() - begin;
  await page.evaluate(() => {
    window.shown = [];
    const note = (time) => { window.shown.push(time); requestAnimationFrame(note); };
    requestAnimationFrame(note);
  });
  await page.mouse.move(640, 300);
  await page.mouse.down();
  const end = performance.now() + SECONDS * 1000;
  for (let step = 0; performance.now() < end; step++) {
    await page.mouse.move(640 + 300 * Math.sin(step / 20), 300);
    await page.waitForTimeout(4);
  }
  await page.mouse.up();
  const shown = await page.evaluate(() => window.shown);
  const between = shown.slice(1).map((time, i) => time - shown[i]).sort((a, b) => a - b);
  const at = (share) => (between[Math.floor(between.length * share)] ?? NaN).toFixed(1);
  console.log(`${what.padEnd(32)} ${at(0.5).padStart(6)} ms, slowest of a hundred ${at(0.99).padStart(6)} ms, ${shown.length} frames; ready after ${(loaded / 1000).toFixed(2)} s`);
  await page.context().close();
}

const started = (page) => page.waitForFunction(() => window.vorViz?.passes > 0, null, { timeout: 60_000 });
await drag('a page without a canvas', '/nothing/', async () => {});
await drag('a canvas that is cleared', '/cleared/', async () => {});
await drag('the viewer, empty', '/viewer/', started);
await drag('the viewer with the capture', '/viewer/?url=run.vor', (page) =>
  page.waitForFunction(() => window.vorViz?.settled && window.vorViz.frames > 0, null, { timeout: 60_000 }));
await browser.close();
server.close();
