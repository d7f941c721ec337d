// Opens the viewer's page and the live demo in Chromium and checks what they say.
//
//   node pages.mjs TOOLS CHROMIUM WORK PICTURES
//
// TOOLS has playwright-core in its node_modules. WORK holds the pages in `viewer` and `demo`, the captures `run.vor` and `damaged.vor`, `text.vor`, which is none, and
// `info.json` and `stats.json`, what the command says of the first. A line per check; the first that fails ends the program with status 1.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [tools, executablePath, folder, pictures] = process.argv.slice(2);
const work = path.resolve(folder);
const { chromium } = createRequire(path.resolve(tools) + '/')('playwright-core');

const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** Serves a folder on loopback, without anything that a plain static server does not do. */
const server = http.createServer((request, response) => {
  const wanted = decodeURIComponent(request.url.split('?')[0]);
  const file = path.join(work, wanted.endsWith('/') ? `${wanted}index.html` : wanted);
  if (!file.startsWith(work + path.sep) || !fs.existsSync(file)) {
    response.writeHead(404);
    return response.end();
  }
  response.writeHead(200, { 'content-type': kinds[path.extname(file)] ?? 'application/octet-stream' });
  fs.createReadStream(file).pipe(response);
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist'],
});

function check(what, holds, found) {
  if (!holds) throw new Error(`${what}: found ${JSON.stringify(found)}`);
  console.log(`  ${what}`);
}

/** Opens a page, notes what goes wrong in it, and runs `work` with it. */
async function visit(address, options, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    // What the network answered is the concern of those who asked.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) errors.push(message.text());
  });
  await page.goto(`${origin}${address}`);
  await body(page);
  check('nothing went wrong in the page', errors.length === 0, errors);
  await context.close();
}

async function picture(page, name) {
  const file = path.join(pictures, `${name}.png`);
  await page.screenshot({ path: file });
  console.log(`  picture ${file}`);
}

/** Lets go of files over the page, as a user does with the mouse. */
async function drop(page, ...files) {
  const contents = files.map((file) => [path.basename(file), fs.readFileSync(file).toString('base64')]);
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

const started = (page) => page.waitForFunction(() => window.vorViz?.passes > 0, null, { timeout: 60_000 });
const until = (page, holds, argument) => page.waitForFunction(holds, argument, { timeout: 30_000 });
const state = (page) => page.evaluate(() => ({ ...window.vorViz, scopes: window.vorViz.scopes() }));
const shows = (name) => (page) =>
  until(page, (name) => window.vorViz?.settled && window.vorViz.name === name && !window.vorViz.problem, name);

const info = JSON.parse(fs.readFileSync(path.join(work, 'info.json')));
const stats = JSON.parse(fs.readFileSync(path.join(work, 'stats.json')));
const names = stats.scopes.map((scope) => scope.name).sort();

async function checkRun(page) {
  await shows('run.vor')(page);
  const found = await state(page);
  check('frames are as many as the command says', found.frames === info.frames && found.frames > 0, found.frames);
  check('spans are as many as the command says', found.spans === info.spans && found.spans > 0, found.spans);
  // Scopes that ended after the last mark are in no frame.
  const unknown = found.scopes.filter((name) => !names.includes(name));
  check('scopes are among those that the command knows', found.scopes.length > 0 && unknown.length === 0, found.scopes);
  check('the page is called as the capture', (await page.title()) === 'run.vor – vor', await page.title());
}

const checks = {
  async 'the viewer, empty'() {
    await visit('/viewer/', { colorScheme: 'light' }, async (page) => {
      await started(page);
      await page.waitForTimeout(300);
      const found = await state(page);
      check('nothing is shown', found.frames === 0 && found.problem === null && found.settled, found);
      await picture(page, 'web_viewer_empty_light');
    });
  },
  async 'a dropped capture'() {
    await visit('/viewer/', { colorScheme: 'dark' }, async (page) => {
      await started(page);
      await drop(page, path.join(work, 'run.vor'));
      await checkRun(page);
      await picture(page, 'web_viewer_dark');
      // What cannot be read leaves what is shown.
      await drop(page, path.join(work, 'text.vor'));
      await until(page, () => window.vorViz.problem !== null);
      const found = await state(page);
      check('what is no capture is told', found.problem.startsWith('text.vor: '), found.problem);
      check('the capture is still shown', found.name === 'run.vor' && found.frames === info.frames, found.name);
      await page.waitForTimeout(300);
      await picture(page, 'web_viewer_refused_dark');
    });
  },
  async 'two dropped captures, at two pixels a point'() {
    await visit('/viewer/', { colorScheme: 'light', deviceScaleFactor: 2 }, async (page) => {
      await started(page);
      await drop(page, path.join(work, 'run.vor'), path.join(work, 'damaged.vor'));
      await until(page, () => window.vorViz.settled && window.vorViz.name === 'run.vor');
      check('the page is called as both', (await page.title()) === 'run.vor and damaged.vor – vor', await page.title());
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
      check('what is left is shown', found.frames > 0 && found.frames <= info.frames, found.frames);
      check('the damage is told', /damaged/.test(found.problem ?? ''), found.problem);
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
      await visit(`/viewer/?url=${encodeURIComponent(address)}`, { colorScheme: 'light' }, async (page) => {
        await started(page);
        await until(page, () => window.vorViz.problem !== null);
        const found = await state(page);
        check(`${address} cannot be shown, and why is told`, says.test(found.problem) && found.frames === 0, found.problem);
        if (address === '../absent.vor') {
          await page.waitForTimeout(300);
          await picture(page, 'web_viewer_absent_light');
        }
      });
    }
  },
  async 'the live demo'() {
    await visit('/demo/', { colorScheme: 'dark' }, async (page) => {
      await until(page, () => performance.getEntriesByType('measure').length > 500);
      const measures = await page.evaluate(() =>
        performance.getEntriesByType('measure').map(({ name, startTime, duration, detail }) => ({ name, startTime, duration, detail })));
      const of = (name) => measures.filter((measure) => measure.name === name);
      const [simulate, advance] = [of('simulate'), of('advance')];
      check('there are measures of the scopes', simulate.length > 1 && advance.length > simulate.length, measures.slice(0, 3));
      const now = await page.evaluate(() => performance.now());
      const last = simulate.at(-1);
      check('they are on the clock of the page', last.startTime > 0 && last.startTime + last.duration <= now && now - last.startTime < 20_000, last);
      const frame = last.detail.frame;
      const inside = advance.filter((measure) => measure.detail.frame === frame);
      const lies = (measure) =>
        measure.startTime >= last.startTime && measure.startTime + measure.duration <= last.startTime + last.duration;
      check('scopes lie inside of those around them', inside.length === 8 && inside.every(lies), inside);
      const entry = inside[0].detail.devtools;
      check('arguments come along', entry.properties[0][0] === 'particles' && entry.properties[0][1] === '500', entry);
      check('tracks are told to the developer tools', entry.dataType === 'track-entry' && entry.track.length > 0, entry);
      await page.waitForTimeout(1500);
      const kept = await page.evaluate(() => performance.getEntriesByType('measure').length);
      check('the buffer is bounded', kept <= 8192, kept);
      await picture(page, 'web_demo_dark');
    });
    await visit('/demo/', { colorScheme: 'light', viewport: { width: 1000, height: 1100 } }, async (page) => {
      await until(page, () => performance.getEntriesByType('measure').length > 500);
      await picture(page, 'web_demo_light');
    });
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
await browser.close();
server.close();
process.exit(status);
