// Measures the viewer's page and Perfetto's in the same Chromium, with the same spans: the time
// until the first picture, and the time from a move of the pointer that drags until the chart has
// moved.
//
//   node peers.mjs TOOLS CHROMIUM WORK ROUNDS PICTURES
//
// `.ci/viewer-peers` calls it. TOOLS has playwright-core in its node_modules. WORK holds the pages
// in `viewer` and `perfetto`, and the spans in `run.vor` and `run.pftrace`. Each round opens both
// pages in turn, each in a new context, and the next round begins with the other one. A page whose
// spans do not appear or do not move ends the program with status 1.
//
// The judge of both pages is the same and looks at pixels only. Chromium sends each frame that it
// shows, with its time. They are compared after the page is closed, within the rectangle of the
// rows of spans. Spans are coloured, and the space around them is grey:
//
// - first picture: from navigation until the first frame from which on there are at least a tenth
//   of the coloured pixels that the last frame has
// - whole picture: until the first frame from which on pixels hardly differ from the last frame
// - step: from a move of the pointer, when no frame came for a while, until the first frame that
//   differs, and until the last one that does; half of the time is in view
import path from 'node:path';

import { start, started } from './browser.mjs';
import { quantile, since, steps, table } from './peers_times.mjs';

const [tools, executablePath, folder, rounds, pictures] = process.argv.slice(2);
const { origin, browser, stop } = await start({ tools, executablePath, folder });

const SIZE = { width: 1280, height: 800 };
const PATIENCE_MS = 120_000;
/** After this time without a frame, a page that has its spans is still. */
const STILL_MS = { loading: 2500, panning: 350 };
const STEPS = 40;
/** Pixels of a step; after each eighth of the steps, the direction changes. */
const STEP = 30;

const expand = encodeURIComponent(
  JSON.stringify([{ id: 'dev.perfetto.ExpandTracksByRegex', args: ['.*'] }]),
);
const contestants = {
  vor: {
    address: `/viewer/?url=${origin}/run.vor`,
    chart: { x: 166, y: 232, width: 880, height: 94 },
    /** The height at which the pointer drags, below the rows: a box beside it may name a span. */
    hand: 480,
    /** The key that is held meanwhile. */
    key: null,
    holds: () => window.vorViz?.settled && window.vorViz.spans > 0,
    async zoom(page) {
      const [begin, end] = await page.evaluate(() => window.vorViz.shown);
      const [from, to] = [0.25, 0.75].map((share) => Math.round(begin + (end - begin) * share));
      await page.goto(`${origin}/viewer/?url=${origin}/run.vor&zoom=${from}ns..${to}ns`);
      await started(page);
      await page.waitForFunction(this.holds, null, { timeout: PATIENCE_MS });
    },
  },
  perfetto: {
    address: `/perfetto/#!/?url=${origin}/run.pftrace&startupCommands=${expand}`,
    chart: { x: 482, y: 234, width: 780, height: 108 },
    hand: 364,
    key: 'Shift',
    holds: () => window.app?.trace && !window.app.trace.engine.numRequestsPending,
    async zoom(page) {
      await page.evaluate(() => window.app.trace.timeline.zoomVisibleWindow(0.5, 0.5));
    },
  },
};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => performance.timeOrigin + performance.now();

/** Collects all frames that a page shows, with their times in milliseconds since 1970. */
async function watch(page) {
  const client = await page.context().newCDPSession(page);
  const shown = [];
  client.on('Page.screencastFrame', ({ data, metadata, sessionId }) => {
    shown.push({ at: metadata.timestamp * 1000, data });
    client.send('Page.screencastFrameAck', { sessionId }).catch(() => {});
  });
  await client.send('Page.startScreencast', { format: 'jpeg', quality: 90 });
  const still = async (ms) => {
    const begin = now();
    while (now() - Math.max(begin, shown.at(-1)?.at ?? 0) < ms) await pause(10);
  };
  return { shown, still };
}

/**
 * Compares frames in the browser. Returns of each frame the number of coloured pixels within the
 * rectangle, and the share of pixels that differ from the last frame and from the one before.
 */
async function judge(shown, chart) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.exposeFunction('frame', (i) => shown[i]?.data);
  const found = await page.evaluate(
    async ([count, { x, y, width, height }]) => {
      const canvas = new OffscreenCanvas(width, height);
      const draw = canvas.getContext('2d', { willReadFrequently: true });
      const pixels = async (i) => {
        const bytes = Uint8Array.from(atob(await window.frame(i)), (c) => c.charCodeAt(0));
        draw.drawImage(await createImageBitmap(new Blob([bytes])), -x, -y);
        return draw.getImageData(0, 0, width, height).data;
      };
      const differ = (a, b) => {
        let different = 0;
        for (let at = 0; at < a.length; at += 4) {
          const by = (part) => Math.abs(a[at + part] - b[at + part]);
          if (Math.max(by(0), by(1), by(2)) > 40) different++;
        }
        return different / (width * height);
      };
      const last = await pixels(count - 1);
      const found = [];
      let before;
      for (let i = 0; i < count; i++) {
        const picture = await pixels(i);
        let coloured = 0;
        for (let at = 0; at < picture.length; at += 4) {
          const [red, green, blue] = [picture[at], picture[at + 1], picture[at + 2]];
          if (Math.max(red, green, blue) - Math.min(red, green, blue) > 40) coloured++;
        }
        found.push({
          coloured,
          fromLast: differ(picture, last),
          fromBefore: before ? differ(picture, before) : 0,
        });
        before = picture;
      }
      return found;
    },
    [shown.length, chart],
  );
  await context.close();
  return found.map((frame, i) => ({ at: shown[i].at, ...frame }));
}

async function open(name, round) {
  const { address, chart, hand, key, holds, zoom } = contestants[name];
  const context = await browser.newContext({ viewport: SIZE, colorScheme: 'light' });
  const page = await context.newPage();
  const { shown, still } = await watch(page);
  await page.goto(`${origin}${address}`, { waitUntil: 'commit', timeout: PATIENCE_MS });
  const navigated = await page.evaluate(() => performance.timeOrigin);
  await page.waitForFunction(holds, null, { timeout: PATIENCE_MS });
  await still(STILL_MS.loading);
  const loading = shown.splice(0);
  await page.screenshot({ path: path.join(pictures, `${name}-${round}.png`) });

  await zoom.call(contestants[name], page);
  const middle = { x: chart.x + chart.width / 2, y: hand };
  await page.mouse.move(middle.x, middle.y);
  if (key) await page.keyboard.down(key);
  await page.mouse.down();
  // The first move is where pages find out that this is no click.
  let x = middle.x + STEP;
  await page.mouse.move(x, middle.y);
  await still(STILL_MS.loading);
  const sent = [];
  for (let step = 0; step < STEPS; step++) {
    x += Math.floor(step / (STEPS / 8)) % 2 === 0 ? STEP : -STEP;
    sent.push(now());
    await page.mouse.move(x, middle.y);
    await still(STILL_MS.panning);
  }
  const panning = shown.splice(0);
  await page.screenshot({ path: path.join(pictures, `${name}-${round}-panned.png`) });
  await page.mouse.up();
  await context.close();

  const frames = await judge(loading, chart);
  const all = frames.at(-1).coloured;
  if (all < 1000) throw new Error('no spans appear');
  const first = since(frames, ({ coloured }) => coloured >= all / 10) - navigated;
  const whole = since(frames, ({ fromLast }) => fromLast < 0.005) - navigated;

  return { first, whole, steps: steps(sent, await judge(panning, chart)) };
}

const results = Object.fromEntries(Object.keys(contestants).map((name) => [name, []]));
let status = 0;
try {
  for (let round = 0; round < Number(rounds); round++) {
    const names = Object.keys(contestants);
    if (round % 2 === 1) names.reverse();
    for (const name of names) {
      const result = await open(name, round).catch((error) => {
        throw new Error(`${name}: ${error.message}`);
      });
      results[name].push(result);
      const ms = (value) => value.toFixed(0);
      const begun = result.steps.map((step) => step.begun);
      console.log(
        `round ${round}, ${name}: first picture ${ms(result.first)} ms, ` +
          `whole ${ms(result.whole)} ms, step ${ms(quantile(begun, 0.5))} ms`,
      );
    }
  }
  console.log(table(results));
} catch (error) {
  console.error(`FAILED: ${error.message}`);
  status = 1;
}
await stop();
process.exit(status);
