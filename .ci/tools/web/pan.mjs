// Measures the time until the viewer's page shows a dropped capture, and the frame rate of Chromium
// while a pointer drags: over pages without the viewer, the empty viewer, and the viewer with the
// capture.
//
//   node pan.mjs TOOLS CHROMIUM WORK CAPTURE
//
// TOOLS has playwright-core in its node_modules, WORK holds the page in `viewer`; `.ci/web` makes
// both. The capture is linked into WORK. The program prints a line per page: milliseconds between
// frames while the pointer drags for some seconds (median, and the slowest of a hundred), and the
// CPU time per frame of the process that draws and of the process of the page. It checks nothing,
// since a CPU draws in place of a GPU.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { start, started } from './browser.mjs';

const [tools, executablePath, folder, capture] = process.argv.slice(2);

/** A page with only a canvas; each frame runs `draw`. */
const bare = (draw) => `<!doctype html><style>body{margin:0}canvas{width:100vw;height:100vh}</style>
<canvas width="1280" height="800"></canvas><script>
const options = { alpha: false, antialias: false, depth: false, stencil: false };
const gl = document.querySelector('canvas').getContext('webgl2', options);
let grey = 0;
const draw = () => { ${draw}; requestAnimationFrame(draw); };
requestAnimationFrame(draw);
</script>`;
const generated = {
  '/nothing/': '<!doctype html><body style="height:100vh">',
  '/cleared/': bare(
    'grey = (grey + 0.01) % 1; gl.clearColor(grey, grey, grey, 1); gl.clear(gl.COLOR_BUFFER_BIT)',
  ),
};
const { work, origin, browser, stop } = await start({ tools, executablePath, folder, generated });
const linked = path.join(work, 'run.vor');
fs.rmSync(linked, { force: true });
fs.symlinkSync(path.resolve(capture), linked);

const SECONDS = 5;

/**
 * The CPU time of this browser's processes of a kind, in milliseconds; Linux counts hundredths of a
 * second.
 */
function cpuMs(kind) {
  const children = (pid) => {
    try {
      return execFileSync('pgrep', ['-P', pid])
        .toString()
        .trim()
        .split('\n')
        .flatMap((child) => [child, ...children(child)]);
    } catch {
      return [];
    }
  };
  let ticks = 0;
  for (const pid of children(String(process.pid))) {
    try {
      if (!fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`--type=${kind}`)) continue;
      const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // It has ended.
    }
  }
  return ticks * 10;
}
const used = () => ['gpu-process', 'renderer'].map(cpuMs);

/** Opens a page, drags over it, and prints the time between its frames. */
async function drag(name, address, ready, moves = false) {
  const page = await (
    await browser.newContext({ viewport: { width: 1280, height: 800 } })
  ).newPage();
  await page.goto(`${origin}${address}`);
  await ready(page);
  await page.mouse.move(640, 300);
  const chart = { x: 170, y: 225, width: 400, height: 110 };
  const still = moves && (await page.screenshot({ clip: chart }));
  await page.evaluate(() => {
    window.shown = [];
    const note = (time) => { window.shown.push(time); requestAnimationFrame(note); };
    requestAnimationFrame(note);
  });
  const before = used();
  await page.mouse.down();
  const end = performance.now() + SECONDS * 1000;
  for (let step = 0; performance.now() < end; step++) {
    await page.mouse.move(640 + 300 * Math.sin(step / 20), 300);
    await page.waitForTimeout(4);
  }
  const after = used();
  const shown = await page.evaluate(() => window.shown);
  if (moves && still.equals(await page.screenshot({ clip: chart })))
    throw new Error(`${name}: the chart does not move`);
  await page.mouse.up();
  const between = shown.slice(1).map((time, i) => time - shown[i]).sort((a, b) => a - b);
  const at = (share) => (between[Math.floor(between.length * share)] ?? NaN).toFixed(1);
  const [drawing, running] = after.map((ms, i) => ((ms - before[i]) / shown.length).toFixed(1));
  const rate = (((shown.length - 1) / (shown.at(-1) - shown[0])) * 1000).toFixed(1);
  console.log(
    `${name.padEnd(32)} ${at(0.5).padStart(6)} ms, ` +
      `slowest of a hundred ${at(0.99).padStart(6)} ms, ${rate} frames a second; ` +
      `CPU time a frame: drawing ${drawing} ms, the page ${running} ms`,
  );
  await page.context().close();
}

const settled = () => window.vorViz?.settled && window.vorViz.frames > 0;

/**
 * Drops the capture on the page, prints the time until its picture is complete, and zooms out to
 * part of all frames.
 */
async function drop(page) {
  await started(page);
  const took = await page.evaluate(async (holds) => {
    const isThere = new Function(`return (${holds})()`);
    const file = new File([await (await fetch('/run.vor')).blob()], 'run.vor');
    const data = new DataTransfer();
    data.items.add(file);
    const canvas = document.querySelector('canvas');
    const begin = performance.now();
    canvas.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true }));
    return new Promise((done) => {
      const look = () =>
        isThere() ? done(performance.now() - begin) : requestAnimationFrame(look);
      requestAnimationFrame(look);
    });
  }, settled.toString());
  const { frames, spans } = await page.evaluate(() => ({ ...window.vorViz }));
  await page.mouse.move(640, 300);
  for (const key of ['Escape', 'w', 'w', 'w']) await page.keyboard.press(key);
  await page.waitForTimeout(500);
  const seconds = (took / 1000).toFixed(2);
  console.log(`${frames} frames and ${spans} spans are shown ${seconds} s after they were dropped`);
}

await drag('a page without a canvas', '/nothing/', async () => {});
await drag('a canvas that is cleared', '/cleared/', async () => {});
await drag('the viewer, empty', '/viewer/', started);
await drag('the viewer, panning', '/viewer/', drop, true);
await stop();
