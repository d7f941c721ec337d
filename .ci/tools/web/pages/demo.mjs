// The live demo measures its scopes on the timeline of the page.
import { check, picture, until, visit } from './page.mjs';

export default {
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
};
