// The viewer's page reacts to keys, clicks, drags and the place in its address.
import { check, picture, until, visit } from './page.mjs';
import { info, shows } from './viewer.mjs';

/** The scale above the flame chart of a viewer at 1280 × 800. */
const SCALE_Y = 222;

export default {
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
};
