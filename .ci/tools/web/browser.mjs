// What the checks and measurements of pages share: a server of static files on loopback, and Chromium as it is on a machine without a GPU.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/**
 * Serves a folder on loopback, without anything that a plain static server does not do, and starts Chromium.
 *
 * `tools` has playwright-core in its node_modules. `made` gives pages that are no files by their paths.
 */
export async function start({ tools, executablePath, folder, made = {} }) {
  const work = path.resolve(folder);
  const server = http.createServer((request, response) => {
    const wanted = decodeURIComponent(request.url.split('?')[0]);
    if (made[wanted]) return response.writeHead(200, { 'content-type': 'text/html' }).end(made[wanted]);
    const file = path.join(work, wanted.endsWith('/') ? `${wanted}index.html` : wanted);
    if (!file.startsWith(work + path.sep) || !fs.existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': kinds[path.extname(file)] ?? 'application/octet-stream' });
    fs.createReadStream(file).pipe(response);
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const { chromium } = createRequire(path.resolve(tools) + '/')('playwright-core');
  // Nothing is forced upon it but that pages may draw by WebGL: the processor does that, and puts what it drew on the page without a GPU's ways.
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--enable-unsafe-swiftshader'] });
  const stop = async () => {
    await browser.close();
    server.close();
  };
  return { work, origin: `http://127.0.0.1:${server.address().port}`, browser, stop };
}

/** Waits until the viewer has drawn something. */
export const started = (page) => page.waitForFunction(() => window.vorViz?.passes > 0, null, { timeout: 60_000 });
