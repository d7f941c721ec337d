//! Frames and systems of a Bevy program in vor.
//!
//! ```text
//! VOR_RECORD=bevy.vor VOR_RECORD_SPANS=1 cargo run --release
//! ```

use std::cell::RefCell;
use std::fmt::Debug;
use std::time::Duration;

use bevy::app::ScheduleRunnerPlugin;
use bevy::log::tracing_subscriber::Layer;
use bevy::log::tracing_subscriber::filter::filter_fn;
use bevy::log::tracing_subscriber::layer::Context;
use bevy::log::tracing_subscriber::registry::LookupSpan;
use bevy::log::{BoxedLayer, LogPlugin};
use bevy::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};

/// Updates of the app, each a frame.
const UPDATES: u32 = 300;

/// Marks a frame at the end of each update.
struct FramesPlugin;

impl Plugin for FramesPlugin {
    fn build(&self, app: &mut App) {
        app.add_systems(Last, vor::frame_mark);
    }
}

/// Makes scopes of Bevy's spans.
fn vor_layer(_: &mut App) -> Option<BoxedLayer> {
    vor::enable(); // reads VOR_RECORD and the other variables
    let others = filter_fn(|span| !SystemsLayer::takes(span));
    let others = vor::tracing::TracingLayer::new().with_filter(others);
    Some(Box::new(SystemsLayer.and_then(others)))
}

/// Makes a scope of each system under the system's own name.
///
/// All systems are spans called `system`, with the name of the system as a field. So vor's layer
/// would give all of them one row.
struct SystemsLayer;

/// The name of a system, in the extensions of its span.
struct SystemName(String);

thread_local! {
    /// The systems that run on this thread, the innermost last.
    static RUNNING: RefCell<Vec<vor::ScopeGuard>> = const { RefCell::new(Vec::new()) };
}

impl SystemsLayer {
    fn takes(span: &Metadata<'_>) -> bool {
        span.is_span() && span.name() == "system"
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SystemsLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !Self::takes(attributes.metadata()) {
            return;
        }
        let mut name = SystemName(String::from("system"));
        attributes.record(&mut name);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(name);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(SystemName(name)) = span.extensions().get()
        {
            RUNNING.with_borrow_mut(|running| running.push(vor::scope(name)));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let is_system = context
            .span(id)
            .is_some_and(|span| Self::takes(span.metadata()));
        if is_system {
            // Dropped without the borrow, and after all systems inside.
            drop(RUNNING.with_borrow_mut(Vec::pop));
        }
    }
}

impl Visit for SystemName {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "name" {
            self.0 = value.to_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "name" {
            self.0 = format!("{value:?}");
        }
    }
}

#[derive(Component)]
struct Position(f32);

#[derive(Component)]
struct Speed(f32);

fn spawn(mut commands: Commands) {
    for i in 0..2000 {
        commands.spawn((Position(0.0), Speed(i as f32 * 0.1)));
    }
}

fn move_all(mut all: Query<(&mut Position, &Speed)>) {
    for (mut position, speed) in &mut all {
        position.0 += speed.0;
    }
}

fn bounce(mut all: Query<(&Position, &mut Speed)>) {
    for (position, mut speed) in &mut all {
        if position.0.abs() > 100.0 {
            speed.0 = -speed.0;
        }
    }
}

fn stop(mut updates: Local<u32>, mut exit: MessageWriter<AppExit>) {
    *updates += 1;
    if *updates == UPDATES {
        exit.write(AppExit::Success);
    }
}

fn main() -> AppExit {
    App::new()
        .add_plugins((
            MinimalPlugins.set(ScheduleRunnerPlugin::run_loop(Duration::from_millis(1))),
            LogPlugin {
                custom_layer: vor_layer,
                ..default()
            },
            FramesPlugin,
        ))
        .add_systems(Startup, spawn)
        .add_systems(Update, (move_all, bounce.after(move_all), stop))
        .run()
}
