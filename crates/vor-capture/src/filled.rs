//! Values of structs that other crates may not write as literals, since they may get more fields.

/// Makes a value of a `#[non_exhaustive]` struct: its default, or another value, with these fields.
///
/// It reads like a literal of the struct.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::frame::Span;
///
/// let depth = 2;
/// let span = filled!(Span { start_ticks: 10, depth });
/// let later = filled!(Span { start_ticks: 20, ..span });
/// assert_eq!((later.start_ticks, later.depth, later.duration_ticks), (20, 2, 0));
/// ```
#[macro_export]
macro_rules! filled {
    ($type:path { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        $crate::filled!($type { $($field $(: $value)?,)* ..<$type>::default() })
    };
    ($type:path { $($field:ident $(: $value:expr)?),* , .. $base:expr }) => {{
        let mut value: $type = $base;
        $( value.$field = $crate::filled!(@ $field $($value)?); )*
        value
    }};
    (@ $field:ident $value:expr) => { $value };
    (@ $field:ident) => { $field };
}
