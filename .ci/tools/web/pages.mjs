// Opens the viewer's page, the live demo, a worker and the bench in Chromium, and checks them.
//
//   node pages.mjs TOOLS CHROMIUM WORK PICTURES
//
// TOOLS has playwright-core in its node_modules. WORK holds the pages in `viewer`, `demo` and
// `bench`, the captures `run.vor` and `damaged.vor`, `text.vor`, which is not a capture, and the
// output of the command for the first in `info.json` and `stats.json`. It prints a line per check;
// the first failure ends the program with status 1.
import fs from 'node:fs';
import path from 'node:path';

import { start, started } from './browser.mjs';

const [tools, executablePath, folder, pictures] = process.argv.slice(2);
const { work, origin, browser, stop } = await start({ tools, executablePath, folder });

function check(what, holds, found) {
  if (!holds) throw new Error(`${what}: found ${JSON.stringify(found)}`);
  console.log(`  ${what}`);
}

/**
 * Opens a page, after the script `before`, and collects its errors. Calls `body` with the page and
 * with vor's lines of level debug, which the console hides by default.
 */
async function visit(address, { before = '', ...options }, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  await page.addInitScript(before);
  const errors = [];
  const hidden = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    // A failed request is not an error of the page: some checks fetch missing files.
    if (message.type() === 'debug' && message.text().startsWith('vor: '))
      hidden.push(message.text());
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      errors.push(message.text());
  });
  await page.goto(`${origin}${address}`);
  await body(page, hidden);
  check('the page has no errors', errors.length === 0, errors);
  await context.close();
}

async function picture(page, name) {
  const file = path.join(pictures, `${name}.png`);
  await page.screenshot({ path: file });
  console.log(`  picture ${file}`);
}

/**
 * Returns the most frequent colour of some rows of pixels, each as red, green and blue. A row is
 * `[x, y, width]`: at a single pixel could be a line of the grid, whose place a capture decides.
 */
async function colours(page, places) {
  const png = (await page.screenshot()).toString('base64');
  return page.evaluate(
    async ([png, places]) => {
      const picture = await createImageBitmap(
        await (await fetch(`data:image/png;base64,${png}`)).blob(),
      );
      const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
      canvas.drawImage(picture, 0, 0);
      return places.map(([x, y, width]) => {
        const { data } = canvas.getImageData(x, y, width, 1);
        const counts = new Map();
        for (let at = 0; at < data.length; at += 4) {
          const colour = data.slice(at, at + 3).join();
          counts.set(colour, (counts.get(colour) ?? 0) + 1);
        }
        return [...counts].reduce((most, one) => (one[1] > most[1] ? one : most))[0];
      });
    },
    [png, places],
  );
}

/** Drops files on the page, as a user does with the mouse. */
async function drop(page, ...files) {
  const contents = files.map((file) => [
    path.basename(file),
    fs.readFileSync(file).toString('base64'),
  ]);
  const data = await page.evaluateHandle((files) => {
    const data = new DataTransfer();
    for (const [name, text] of files) {
      data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
    }
    return data;
  }, contents);
  await page.dispatchEvent('canvas', 'dragover', { dataTransfer: data });
  await page.dispatchEvent('canvas', 'drop', { dataTransfer: data });
}

/** The scale above the flame chart of a viewer at 1280 × 800. */
const SCALE_Y = 222;

/** The button `Export`, and the rows of its menu. */
const EXPORT = [30, 14];
const EXPORT_ROWS = { pftrace: [50, 59], json: [50, 82], csv: [50, 105], png: [50, 128] };

/** Exports what is selected; returns the name and the bytes of the download. */
async function exported(page, extension) {
  await page.mouse.click(...EXPORT);
  await page.waitForTimeout(500);
  const [download] = await Promise.all([
    page.waitForEvent('download', { timeout: 30_000 }),
    page.mouse.click(...EXPORT_ROWS[extension]),
  ]);
  const bytes = fs.readFileSync(await download.path());
  await page.waitForTimeout(500);
  return [download.suggestedFilename(), bytes];
}

/** Returns the width of a picture, its height, and how many colours it has. */
function measured(page, png) {
  return page.evaluate(async (png) => {
    const picture = await createImageBitmap(
      await (await fetch(`data:image/png;base64,${png}`)).blob(),
    );
    const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
    canvas.drawImage(picture, 0, 0);
    const { data } = canvas.getImageData(0, 0, picture.width, picture.height);
    return [picture.width, picture.height, new Set(new Uint32Array(data.buffer)).size];
  }, png.toString('base64'));
}

/** Counts the packets of a Perfetto trace; throws unless it has nothing else. */
function packets(bytes) {
  let count = 0;
  for (let at = 0; at < bytes.length; count += 1) {
    // The field of packets, and then a length of seven bits a byte.
    if (bytes[at++] !== 0x0a) throw new Error(`no packet at ${at - 1}`);
    let length = 0;
    for (let shift = 0, more = true; more; shift += 7) {
      length += (bytes[at] & 0x7f) * 2 ** shift;
      more = bytes[at++] >= 0x80;
    }
    at += length;
    if (at > bytes.length) throw new Error('the last packet is cut');
  }
  return count;
}

const until = (page, holds, argument) => page.waitForFunction(holds, argument, { timeout: 30_000 });
const state = (page) => page.evaluate(() => ({ ...window.vorViz, scopes: window.vorViz.scopes() }));
const shows = (name) => (page) =>
  until(
    page,
    (name) => window.vorViz?.settled && window.vorViz.name === name && !window.vorViz.problem,
    name,
  );

const info = JSON.parse(fs.readFileSync(path.join(work, 'info.json')));
const stats = JSON.parse(fs.readFileSync(path.join(work, 'stats.json')));
const names = stats.scopes.map((scope) => scope.name).sort();

async function checkRun(page) {
  await shows('run.vor')(page);
  const found = await state(page);
  check(
    'frames are as many as the command says',
    found.frames === info.frames && found.frames > 0,
    found.frames,
  );
  check(
    'spans are as many as the command says',
    found.spans === info.spans && found.spans > 0,
    found.spans,
  );
  // Scopes that ended after the last mark are in no frame.
  const unknown = found.scopes.filter((name) => !names.includes(name));
  check(
    'scopes are among those that the command knows',
    found.scopes.length > 0 && unknown.length === 0,
    found.scopes,
  );
  check(
    'the title is the name of the capture',
    (await page.title()) === 'run.vor – vor',
    await page.title(),
  );
}

const checks = {
  async 'the viewer, empty'() {
    await visit('/viewer/', { colorScheme: 'light' }, async (page) => {
      await started(page);
      await page.waitForTimeout(300);
      const found = await state(page);
      check(
        'nothing is shown',
        found.frames === 0 && found.problem === null && found.settled,
        found,
      );
      await picture(page, 'web_viewer_empty_light');
    });
  },
  async 'a dropped capture'() {
    // Counts clears within a scissor.
    const before = `window.cleared = 0;
      const { clear } = WebGL2RenderingContext.prototype;
      WebGL2RenderingContext.prototype.clear = function (mask) {
        if (this.isEnabled(this.SCISSOR_TEST)) window.cleared++;
        return clear.call(this, mask);
      };`;
    await visit('/viewer/', { colorScheme: 'dark', before }, async (page) => {
      await started(page);
      await drop(page, path.join(work, 'run.vor'));
      await checkRun(page);
      await picture(page, 'web_viewer_dark');
      // Drawn backgrounds would cost the CPU more than anything else. The panel's background, below
      // the names of tracks, is the page's clear colour, and charts are cleared too.
      const cleared = await page.evaluate(() => window.cleared / window.vorViz.passes);
      check('backgrounds of charts are cleared, not drawn', cleared > 1, cleared);
      const backgrounds = await colours(page, [
        [20, 500, 100],
        [400, 500, 500],
      ]);
      check(
        'panel and chart have their backgrounds',
        backgrounds.join(' ') === '27,27,27 20,20,20',
        backgrounds,
      );
      // An unreadable file leaves the page as it is.
      await drop(page, path.join(work, 'text.vor'));
      await until(page, () => window.vorViz.problem !== null);
      const found = await state(page);
      check(
        'a file that is not a capture is reported',
        found.problem.startsWith('text.vor: '),
        found.problem,
      );
      check(
        'the capture is still shown',
        found.name === 'run.vor' && found.frames === info.frames,
        found.name,
      );
      await page.waitForTimeout(300);
      await picture(page, 'web_viewer_refused_dark');
    });
  },
  async 'a capture, by keys, clicks and drags'() {
    await visit('/viewer/?url=../run.vor', { colorScheme: 'dark' }, async (page) => {
      await shows('run.vor')(page);
      const looks = () => page.evaluate(() => ({ ...window.vorViz }));
      const becomes = async (what, name, expected) => {
        const wanted = JSON.stringify(expected);
        const holds = ([name, wanted]) =>
          window.vorViz.settled && JSON.stringify(window.vorViz[name]) === wanted;
        await until(page, holds, [name, wanted]).catch(async () =>
          check(`${what}: ${wanted}`, false, (await looks())[name]),
        );
        console.log(`  ${what}`);
      };
      // Keys work where the pointer is over the panel.
      await page.mouse.move(640, 300);
      for (const [key, tab] of [
        ['2', 'Scopes'],
        ['3', 'Flame graph'],
        ['4', 'Compare'],
        ['5', 'Find'],
        ['1', 'Metrics'],
      ]) {
        await page.keyboard.press(key);
        await becomes(`key ${key} opens ${tab}`, 'tab', tab);
      }
      await page.keyboard.press('?');
      await becomes('a key shows the table of keys', 'help', true);
      await picture(page, 'web_viewer_keys_dark');
      await page.keyboard.press('Escape');
      await becomes('Escape closes it', 'help', false);
      // The pointer is over the panel again from the next pass on.
      await page.waitForTimeout(300);
      for (const [key, frame] of [
        ['End', info.frames - 1],
        ['End', info.frames - 1],
        ['ArrowLeft', info.frames - 2],
        ['Home', 0],
        ['ArrowRight', 1],
        ['Escape', null],
      ]) {
        await page.keyboard.press(key);
        await becomes(`key ${key} goes to a frame`, 'pinned', frame);
      }
      const [begin, end] = (await looks()).shown;
      await page.mouse.wheel(0, -300);
      await until(
        page,
        (all) => window.vorViz.shown[1] - window.vorViz.shown[0] < 0.9 * all,
        end - begin,
      );
      console.log('  the wheel zooms');
      // It goes on smoothly for a moment.
      await page.waitForTimeout(500);
      await page.keyboard.press('0');
      await becomes('a key shows all again', 'shown', [begin, end]);
      await page.mouse.click(640, 190);
      await until(page, () => window.vorViz.settled && window.vorViz.pinned !== null);
      const { pinned, frameMs } = await looks();
      check('a click on the bars pins a frame', pinned > 0 && pinned < info.frames - 1, pinned);
      check('its duration is known', frameMs > 0, frameMs);
      await picture(page, 'web_viewer_pinned_dark');
      await page.keyboard.press('Escape');
      await becomes('Escape unpins it', 'pinned', null);
      // In the scale above the flame chart.
      await page.mouse.move(400, SCALE_Y);
      await page.mouse.down();
      for (let x = 410; x <= 700; x += 10) await page.mouse.move(x, SCALE_Y);
      await page.mouse.up();
      await until(page, () => window.vorViz.settled && window.vorViz.selected !== null);
      const { selected } = await looks();
      check(
        'a drag in the scale selects a time',
        begin < selected[0] && selected[0] < selected[1] && selected[1] < end,
        selected,
      );
      await page.keyboard.press('2');
      await becomes('its table opens', 'tab', 'Scopes');
      await page.waitForTimeout(300);
      await picture(page, 'web_viewer_selected_dark');
    });
  },
  async 'addresses of places'() {
    const visitPlace = (place, holds) =>
      visit(
        `/viewer/?url=../run.vor&${place}`,
        // As a phone.
        { colorScheme: 'light', viewport: { width: 390, height: 844 } },
        async (page) => {
          await shows('run.vor')(page);
          await until(page, holds).catch(async () =>
            check(`${place} is shown`, false, await page.evaluate(() => ({ ...window.vorViz }))),
          );
          console.log(`  ${place} is shown`);
          await page.waitForTimeout(300);
          await picture(page, `web_viewer_${place.split('=')[0]}_390_light`);
        },
      );
    await visitPlace('frame=7', () => window.vorViz.settled && window.vorViz.pinned === 7);
    await visitPlace(
      'zoom=20ms..30ms',
      () => window.vorViz.settled && window.vorViz.shown.join() === '20000000,30000000',
    );
    await visitPlace(
      'time=20ms..30ms',
      () => window.vorViz.settled && window.vorViz.selected?.join() === '20000000,30000000',
    );
  },
  async 'exports, as downloads'() {
    for (const [place, settled] of [
      ['frame=7', () => window.vorViz?.settled && window.vorViz.pinned === 7],
      // All of it, which is read again.
      ['time=1us..10s', () => window.vorViz?.settled && window.vorViz.selected !== null],
    ]) {
      const address = `/viewer/?url=../run.vor&${place}`;
      await visit(address, { colorScheme: 'dark' }, async (page) => {
        await shows('run.vor')(page);
        await until(page, settled);
        const selected = await page.evaluate(() => window.vorViz.selected);
        const stem = selected ? `run.time-${selected.join('-')}` : 'run.frame-7';
        const [csvName, csv] = await exported(page, 'csv');
        const rows = csv.toString().trimEnd().split('\n');
        check(
          `the spans of ${place} are a table`,
          csvName === `${stem}.csv` && /,dur_ns(,|$)/.test(rows[0]) && rows.length > 1,
          [csvName, ...rows.slice(0, 3)],
        );
        const [jsonName, json] = await exported(page, 'json');
        const events = JSON.parse(json);
        const spans = (events.traceEvents ?? events).filter((event) => event.ph === 'X');
        check(
          'they are the spans of a Chrome trace',
          jsonName === `${stem}.json` && spans.length === rows.length - 1,
          [jsonName, spans.length, rows.length],
        );
        const [traceName, trace] = await exported(page, 'pftrace');
        check(
          'they are packets of a Perfetto trace',
          traceName === `${stem}.pftrace` && packets(trace) > spans.length,
          [traceName, trace.length],
        );
        const [pngName, png] = await exported(page, 'png');
        fs.writeFileSync(path.join(pictures, `web_export_${stem}.png`), png);
        const [width, height, shades] = await measured(page, png);
        check(
          'they are a picture of the flame chart',
          pngName === `${stem}.png` && width === 1920 && height >= 120 && shades > 20,
          [pngName, width, height, shades],
        );
      });
    }
  },
  async 'two dropped captures, at two pixels a point'() {
    await visit('/viewer/', { colorScheme: 'light', deviceScaleFactor: 2 }, async (page) => {
      await started(page);
      await drop(page, path.join(work, 'run.vor'), path.join(work, 'damaged.vor'));
      await until(page, () => window.vorViz.settled && window.vorViz.name === 'run.vor');
      check(
        'the title has both names',
        (await page.title()) === 'run.vor and damaged.vor – vor',
        await page.title(),
      );
      await page.waitForTimeout(300);
      await picture(page, 'web_viewer_two_light_2x');
    });
  },
  async 'a damaged capture'() {
    await visit('/viewer/', { colorScheme: 'light' }, async (page) => {
      await started(page);
      await drop(page, path.join(work, 'damaged.vor'));
      await until(page, () => window.vorViz.settled && window.vorViz.name === 'damaged.vor');
      const found = await state(page);
      check(
        'the intact part is shown',
        found.frames > 0 && found.frames <= info.frames,
        found.frames,
      );
      check('the damage is reported', /damaged/.test(found.problem ?? ''), found.problem);
      await page.waitForTimeout(300);
      await picture(page, 'web_viewer_damaged_light');
    });
  },
  async 'addresses'() {
    for (const address of ['../run.vor', `${origin}/run.vor`]) {
      await visit(`/viewer/?url=${encodeURIComponent(address)}`, { colorScheme: 'dark' }, checkRun);
    }
    for (const [address, says] of [
      ['../absent.vor', /^\.\.\/absent\.vor: the server answered 404/],
      ['../text.vor', /^text\.vor: /],
      ['http://127.0.0.1:1/run.vor', /^http:\/\/127\.0\.0\.1:1\/run\.vor: cannot be fetched/],
      ['http://', /^http:\/\/: cannot be fetched/],
    ]) {
      await visit(
        `/viewer/?url=${encodeURIComponent(address)}`,
        { colorScheme: 'light' },
        async (page) => {
          await started(page);
          await until(page, () => window.vorViz.problem !== null);
          const found = await state(page);
          check(
            `${address} cannot be shown, with a reason`,
            says.test(found.problem) && found.frames === 0,
            found.problem,
          );
          if (address === '../absent.vor') {
            await page.waitForTimeout(300);
            await picture(page, 'web_viewer_absent_light');
          }
        },
      );
    }
  },
  async 'the live demo'() {
    await visit('/demo/', { colorScheme: 'dark' }, async (page) => {
      await until(page, () => performance.getEntriesByType('measure').length > 500);
      const measures = await page.evaluate(() =>
        performance
          .getEntriesByType('measure')
          .map(({ name, startTime, duration, detail }) => ({ name, startTime, duration, detail })),
      );
      const of = (name) => measures.filter((measure) => measure.name === name);
      const [simulate, advance] = [of('simulate'), of('advance')];
      check(
        'there are measures of the scopes',
        simulate.length > 1 && advance.length > simulate.length,
        measures.slice(0, 3),
      );
      const now = await page.evaluate(() => performance.now());
      const last = simulate.at(-1);
      check(
        'they are on the clock of the page',
        last.startTime > 0 &&
          last.startTime + last.duration <= now &&
          now - last.startTime < 20_000,
        last,
      );
      const frame = last.detail.frame;
      const inside = advance.filter((measure) => measure.detail.frame === frame);
      const lies = (measure) =>
        measure.startTime >= last.startTime &&
        measure.startTime + measure.duration <= last.startTime + last.duration;
      check(
        'scopes lie inside of those around them',
        inside.length === 8 && inside.every(lies),
        inside,
      );
      const entry = inside[0].detail.devtools;
      check(
        'arguments come along',
        entry.properties[0][0] === 'particles' && entry.properties[0][1] === '500',
        entry,
      );
      check(
        'the developer tools receive tracks',
        entry.dataType === 'track-entry' && entry.track.length > 0,
        entry,
      );
      await page.waitForTimeout(1500);
      const count = await page.evaluate(() => performance.getEntriesByType('measure').length);
      check('the buffer is bounded', count <= 8192, count);
      await picture(page, 'web_demo_dark');
    });
    await visit(
      '/demo/',
      { colorScheme: 'light', viewport: { width: 1000, height: 1100 } },
      async (page) => {
        await until(page, () => performance.getEntriesByType('measure').length > 500);
        await picture(page, 'web_demo_light');
      },
    );
  },
  async 'a worker'() {
    const own = path.join(work, 'worker');
    fs.mkdirSync(own);
    fs.writeFileSync(
      path.join(own, 'index.html'),
      '<!doctype html><title>a page with a worker</title><link rel="icon" href="data:,">',
    );
    // The program of the demo, which computes some frames if there is no page.
    fs.writeFileSync(
      path.join(own, 'worker.js'),
      `import start from '../demo/web.js';
       const began = performance.now();
       await start();
       const measures = performance.getEntriesByType('measure');
       postMessage({
         began, ended: performance.now(), window: typeof window,
         measures: measures.map(({ name, startTime, duration, detail }) => (
           { name, startTime, duration, detail })),
       });`,
    );
    await visit('/worker/', {}, async (page) => {
      const { began, ended, window, measures } = await page.evaluate(
        () =>
          new Promise((resolve, reject) => {
            const worker = new Worker('worker.js', { type: 'module' });
            worker.onmessage = (message) => resolve(message.data);
            worker.onerror = (error) => reject(new Error(`the worker: ${error.message}`));
            setTimeout(() => reject(new Error('the worker does not answer')), 30_000);
          }),
      );
      check('it is a worker, without a window', window === 'undefined', window);
      const counts = {};
      for (const { name } of measures) counts[name] = (counts[name] ?? 0) + 1;
      // Twenty frames that simulate once, twice, three times, once and so on, in eight slices each.
      const expected = { work: 20, simulate: 39, spawn: 39, advance: 312 };
      const same =
        Object.keys(counts).length === 4 &&
        Object.entries(expected).every(([name, count]) => counts[name] === count);
      check('every scope is a measure, and nothing else is', same, counts);

      const end = (measure) => measure.startTime + measure.duration;
      // Sums of floating-point milliseconds differ in the last bits.
      const within = (inner, outer) =>
        inner.startTime >= outer.startTime - 1e-6 && end(inner) <= end(outer) + 1e-6;
      const of = (name, frame) =>
        measures.filter((measure) => measure.name === name && measure.detail.frame === frame);
      let total = 0;
      let previous = { startTime: began, duration: 0 };
      for (let frame = 0; frame < 20; frame += 1) {
        const [[work], simulations] = [of('work', frame), of('simulate', frame)];
        const inner = [...of('spawn', frame), ...of('advance', frame)];
        const found = JSON.stringify([work, ...simulations, ...inner]);
        const holds =
          work?.detail.devtools.properties[0].join() === `frame,${frame}` &&
          work.startTime >= end(previous) - 1e-6 &&
          simulations.length === 1 + (frame % 3) &&
          simulations.every((simulate) => within(simulate, work)) &&
          inner.length === 9 * simulations.length &&
          // Measures are in order of time, so each simulation has the next eight slices.
          of('advance', frame).every((advance, i) =>
            within(advance, simulations[Math.floor(i / 8)]),
          ) &&
          of('spawn', frame).every((spawn, i) => within(spawn, simulations[i])) &&
          inner.reduce((sum, { duration }) => sum + duration, 0) <= work.duration + 1e-6;
        if (!holds) throw new Error(`frame ${frame} of the worker: found ${found}`);
        total += work.duration;
        previous = work;
      }
      check('scopes lie in their frames and in those around them', end(previous) <= ended, [
        previous,
        ended,
      ]);
      check('their total is within the run of the worker', total > 0 && total <= ended - began, [
        total,
        began,
        ended,
      ]);
      const left = await page.evaluate(() => performance.getEntriesByType('measure').length);
      check("the page's own timeline has none of them", left === 0, left);
    });
  },
  async 'the cost of a scope, and the content of frames'() {
    const own = ['frame_ms', 'io_MB', 'io_ms'];
    const others =
      'cpu_pct, page_faults, ctx_switches, threads, disk_read_MB, disk_write_MB ' +
      '(browsers do not report it)';
    for (const [where, address, before, rows] of [
      ['a window', '/bench/', '', [...own, 'memory_mb']],
      [
        'a window of a browser without `performance.memory`',
        '/bench/',
        'delete Performance.prototype.memory;',
        own,
      ],
      ['a worker', '/bench/?worker', '', own],
    ]) {
      await visit(address, { before }, async (page, hidden) => {
        const answer = await (
          await page.waitForFunction(() => window.vorBench, null, { timeout: 120_000 })
        ).jsonValue();
        console.log(`  ${where}`);
        for (const [name, ns, ratio] of answer.costs) {
          const cost = `${ns.toFixed(1).padStart(8)} ns ${ratio.toFixed(2).padStart(6)} ×`;
          console.log(`    ${name.padEnd(24)} ${cost}`);
        }
        check(
          'all scopes are in frames, and none is dropped',
          answer.spans >= 101 * 3 * 25_000 && answer.dropped === 0,
          answer,
        );
        check(
          'rows are those that the browser reports',
          answer.rows.join() === rows.join(),
          answer.rows,
        );
        const memory = rows.includes('memory_mb')
          ? ''
          : 'memory_mb (there is no `performance.memory`, which only windows of Chromium have), ';
        check(
          'one debug line explains the absent rows',
          hidden.join() === `vor: these rows are absent: ${memory}${others}`,
          hidden,
        );
        check(
          "puffin has its own scopes and vor's in one frame",
          answer.puffin.toSorted().join() === 'of puffin,of vor',
          answer.puffin,
        );
      });
    }
  },
};

let status = 0;
try {
  for (const [name, body] of Object.entries(checks)) {
    console.log(name);
    await body();
  }
} catch (error) {
  console.error(`FAILED: ${error.message}`);
  status = 1;
}
await stop();
process.exit(status);
