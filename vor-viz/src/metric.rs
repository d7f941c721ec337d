//! A program's own metrics in the panel.

/// Something to plot of the program's record of a frame.
#[derive(Debug)]
pub struct Metric<R> {
    /// What it is called.
    pub name: &'static str,
    /// Its unit, empty for none.
    pub unit: &'static str,
    /// Reads it from a record. NaN and infinite values are gaps.
    pub get: fn(&R) -> f64,
    /// Whether it is shown without decimals.
    pub integer: bool,
    /// Its description, shown when the pointer is over the name.
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

    /// Shows it without decimals.
    #[must_use]
    pub const fn as_integer(mut self) -> Self {
        self.integer = true;
        self
    }

    /// Says what it is.
    #[must_use]
    pub const fn describe(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }
}

// Derived, these would ask the same of `R`.
impl<R> Clone for Metric<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Metric<R> {}
