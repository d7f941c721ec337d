// A page in Chromium, and a check of what it shows.
//
// The arguments are those of main.mjs.
import path from 'node:path';

import { start } from '../browser.mjs';

const [tools, executablePath, folder, pictures] = process.argv.slice(2);
export const { work, origin, browser, stop } = await start({ tools, executablePath, folder });
export { pictures };

/** Prints what holds; throws with what was found instead if it does not. */
export function check(what, holds, found) {
  if (!holds) throw new Error(`${what}: found ${JSON.stringify(found)}`);
  console.log(`  ${what}`);
}

/**
 * Opens a page, after the script `before`, and collects its errors. Calls `body` with the page and
 * with vor's lines of level debug, which the console hides by default.
 */
export async function visit(address, { before = '', ...options }, body) {
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

/** Takes a picture of the page. */
export async function picture(page, name) {
  const file = path.join(pictures, `${name}.png`);
  await page.screenshot({ path: file });
  console.log(`  picture ${file}`);
}

/** Waits until a function holds in the page. */
export const until = (page, holds, argument) =>
  page.waitForFunction(holds, argument, { timeout: 30_000 });
