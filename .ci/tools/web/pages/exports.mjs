// The viewer's page exports what is selected, as downloads.
import fs from 'node:fs';
import path from 'node:path';

import { check, pictures, until, visit } from './page.mjs';
import { shows } from './viewer.mjs';

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

export default {
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
};
