// Code that the checks and measurements of pages share: a static file server on loopback, and
// Chromium as on a machine without a GPU.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const kinds = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

/**
 * Serves a folder on loopback, as a plain static server does, and starts Chromium.
 *
 * `tools` has playwright-core in its node_modules. `generated` has the content of pages without a
 * file, by path.
 */
export async function start({ tools, executablePath, folder, generated = {} }) {
  const work = path.resolve(folder);
  const server = http.createServer((request, response) => {
    const wanted = decodeURIComponent(request.url.split('?')[0]);
    if (generated[wanted]) {
      return response.writeHead(200, { 'content-type': 'text/html' }).end(generated[wanted]);
    }
    const file = path.join(work, wanted.endsWith('/') ? `${wanted}index.html` : wanted);
    if (!file.startsWith(work + path.sep) || !fs.existsSync(file))
      return response.writeHead(404).end();
    response.writeHead(200, {
      'content-type': kinds[path.extname(file)] ?? 'application/octet-stream',
    });
    fs.createReadStream(file).pipe(response);
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const { chromium } = createRequire(path.resolve(tools) + '/')('playwright-core');
  // The only option is WebGL without a GPU: the CPU draws, and copies the picture to the page.
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--enable-unsafe-swiftshader'],
  });
  const stop = async () => {
    await browser.close();
    server.close();
  };
  return { work, origin: `http://127.0.0.1:${server.address().port}`, browser, stop };
}

/** Waits until the viewer has drawn something. */
export const started = (page) =>
  page.waitForFunction(() => window.vorViz?.passes > 0, null, { timeout: 60_000 });
