//! A game whose physics has a rhythm of its own, with the depth of its queue of events as a plot.

use std::collections::{BTreeMap, VecDeque};
use std::thread;

use tracy_client::{Client, frame_mark, non_continuous_frame, plot, secondary_frame_mark, span};

/// The calls that the game made, by its own count. Only Tracy reads Tracy's data.
type Account = BTreeMap<&'static str, u64>;

struct Game {
    events: VecDeque<u64>,
    positions: Vec<f64>,
    account: Account,
}

impl Game {
    fn physics(&mut self) {
        let _span = span!("physics");
        *self.account.entry("physics").or_default() += 1;
        for (index, position) in self.positions.iter_mut().enumerate() {
            *position = (*position + index as f64 / 7.0) % 100.0;
        }
        secondary_frame_mark!("physics");
    }

    fn handle(&mut self, event: u64) {
        let span = span!("event");
        span.emit_value(event);
        span.emit_color(0x3388ff);
        *self.account.entry("event").or_default() += 1;
        let index = event as usize % self.positions.len();
        self.positions[index] = 0.0;
        if event % 10 == 0 {
            Client::running()
                .expect("the client runs")
                .message("respawned", 0);
        }
    }

    fn frame(&mut self, number: u64) {
        let _span = span!("frame");
        *self.account.entry("frame").or_default() += 1;
        self.events.extend((0..number % 4).map(|n| number + n));
        plot!("queue", self.events.len() as f64);
        // The physics runs three times in two frames.
        for _ in 0..1 + number % 2 {
            self.physics();
        }
        while let Some(event) = self.events.pop_front() {
            self.handle(event);
        }
    }
}

fn load(level: u64, account: &mut Account) -> Vec<f64> {
    let _frame = non_continuous_frame!("load level");
    *account.entry("load level").or_default() += 1;
    let _span = Client::running().expect("the client runs").span_alloc(
        Some(&format!("level {level}")),
        "load",
        file!(),
        line!(),
        0,
    );
    *account
        .entry(["level 0", "level 1"][level as usize])
        .or_default() += 1;
    (0..20).map(|n| f64::from(n) * level as f64).collect()
}

fn main() {
    let _client = Client::start();
    let loader = thread::spawn(|| {
        tracy_client::set_thread_name!("loader");
        let mut account = Account::new();
        let positions = [load(0, &mut account), load(1, &mut account)].concat();
        (positions, account)
    });
    let (positions, account) = loader.join().expect("no level panics");
    let mut game = Game {
        events: VecDeque::new(),
        positions,
        account,
    };
    for number in 0..40 {
        game.frame(number);
        frame_mark();
    }
    for (name, calls) in &game.account {
        println!("{name}\t{calls}");
    }
}
