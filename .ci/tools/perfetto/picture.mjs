// picture.mjs UI TRACE OUT.png SCRIPT.js QUERY.sql: opens a trace in the Perfetto UI of a folder,
// in a headless Chromium, runs a script in the page, and stores a screenshot.
//
// The script is the body of an async function with the parameters `app`, the UI's own object, and
// `query`, the text of QUERY.sql. A pipe controls the browser, so node is the only other program,
// and a server on loopback provides all files.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

const WIDTH = 1600;
const HEIGHT = 1000;
const PATIENCE_MS = 60_000;
const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

const [ui, trace, out, script, query] = process.argv.slice(2);

const server = http.createServer((request, response) => {
  const name = path.normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
  const file =
    name === '/trace' ? trace : path.join(ui, name.endsWith('/') ? `${name}index.html` : name);
  fs.readFile(file, (error, bytes) => {
    if (error) return response.writeHead(404).end();
    response
      .writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' })
      .end(bytes);
  });
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'picture-'));
const browser = spawn(
  process.env.CHROMIUM ?? 'chromium',
  [
    '--headless=new',
    '--no-sandbox',
    '--remote-debugging-pipe',
    `--user-data-dir=${profile}`,
    '--hide-scrollbars',
    '--use-angle=swiftshader',
    '--enable-unsafe-swiftshader',
    '--ignore-gpu-blocklist',
    `--window-size=${WIDTH},${HEIGHT}`,
    'about:blank',
  ],
  { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] },
);
const [, , , to, from] = browser.stdio;
const waiting = new Map();
let number = 0;
let rest = '';
from.on('data', (bytes) => {
  const messages = (rest + bytes).split('\0');
  rest = messages.pop();
  for (const { id, result, error } of messages.map((text) => JSON.parse(text))) {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error) reject?.(new Error(error.message));
    else resolve?.(result);
  }
});
let sessionId;
const call = (method, params = {}) =>
  new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject });
    to.write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`);
  });
const run = async (expression) => {
  const { result, exceptionDetails } = await call('Runtime.evaluate', {
    expression,
    awaitPromise: true,
    returnByValue: true,
  });
  if (exceptionDetails)
    throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (expression) => {
  for (const begin = Date.now(); !(await run(expression).catch(() => false)); await pause(200)) {
    if (Date.now() - begin > PATIENCE_MS)
      throw new Error(`not true after ${PATIENCE_MS} ms: ${expression}`);
  }
};

let status = 0;
try {
  const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
  ({ sessionId } = await call('Target.attachToTarget', { targetId, flatten: true }));
  await call('Emulation.setDeviceMetricsOverride', {
    width: WIDTH,
    height: HEIGHT,
    deviceScaleFactor: 1,
    mobile: false,
  });
  await call('Page.navigate', { url: `${origin}/#!/?url=${origin}/trace` });
  await until(
    'window.app?.trace && !app.trace.engine.numRequestsPending && app.omnibox !== undefined',
  );
  await pause(2000);
  const [body, sql] = [script, query].map((file) => fs.readFileSync(file, 'utf8'));
  const answer = await run(`(async (app, query) => { ${body} })(app, ${JSON.stringify(sql)})`);
  if (answer !== undefined && answer !== null) console.log(answer);
  await pause(3000);
  const { data } = await call('Page.captureScreenshot', { format: 'png' });
  fs.writeFileSync(out, Buffer.from(data, 'base64'));
} catch (error) {
  console.error(`picture: ${error.message}`);
  status = 1;
}
server.closeAllConnections();
server.close();
const ended = new Promise((resolve) => browser.once('exit', resolve));
sessionId = undefined;
call('Browser.close').catch(() => {});
await Promise.race([ended, pause(5000)]);
browser.kill('SIGKILL');
fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
process.exit(status);
