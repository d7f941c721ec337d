// What the checks of the viewer's page share.
import fs from 'node:fs';
import path from 'node:path';

import { check, until, work } from './page.mjs';

/** What the command says of `run.vor`. */
export const info = JSON.parse(fs.readFileSync(path.join(work, 'info.json')));
const stats = JSON.parse(fs.readFileSync(path.join(work, 'stats.json')));
const names = stats.scopes.map((scope) => scope.name).sort();

/** Returns what the page says that it shows. */
export const state = (page) =>
  page.evaluate(() => ({ ...window.vorViz, scopes: window.vorViz.scopes() }));

/** Returns a function that waits until the page shows the capture of a name. */
export const shows = (name) => (page) =>
  until(
    page,
    (name) => window.vorViz?.settled && window.vorViz.name === name && !window.vorViz.problem,
    name,
  );

/** Drops files on the page, as a user does with the mouse. */
export async function drop(page, ...files) {
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

/** Checks that the page shows all of `run.vor`. */
export async function checkRun(page) {
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
