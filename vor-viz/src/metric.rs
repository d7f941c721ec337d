//! Metrics of the program itself in the panel.

/// A value that is plotted from the program's record of a frame.
///
/// ```
/// # mod vor { pub mod viz { pub use vor_viz::Metric; } }
/// struct Frame {
///     draw_calls: usize,
/// }
///
/// let read = |frame: &Frame| frame.draw_calls as f64;
/// let draw_calls = vor::viz::Metric::new("draw calls", read, "");
/// assert_eq!((draw_calls.get)(&Frame { draw_calls: 3 }), 3.0);
/// ```
#[derive(Debug)]
pub struct Metric<R> {
    /// The name.
    pub name: &'static str,
    /// The unit; empty for none.
    pub unit: &'static str,
    /// Reads the value from a record. NaN and infinite values are gaps.
    pub get: fn(&R) -> f64,
    /// Whether the value is shown without decimals.
    pub integer: bool,
    /// The description, shown when the pointer is over the name.
    pub description: &'static str,
}

impl<R> Metric<R> {
    /// Makes a metric with decimals and without a description.
    #[must_use]
    pub const fn new(name: &'static str, get: fn(&R) -> f64, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            get,
            integer: false,
            description: "",
        }
    }

    /// Shows the value without decimals.
    #[must_use]
    pub const fn as_integer(mut self) -> Self {
        self.integer = true;
        self
    }

    /// Sets the description.
    #[must_use]
    pub const fn describe(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }
}

// Derived implementations would require the same traits of `R`.
impl<R> Clone for Metric<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Metric<R> {}
