// The viewer's page shows captures that are dropped on it, and refuses other files.
import path from 'node:path';

import { started } from '../browser.mjs';
import { check, picture, until, visit, work } from './page.mjs';
import { checkRun, drop, info, state } from './viewer.mjs';

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

export default {
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
};
