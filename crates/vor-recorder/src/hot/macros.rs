//! The macros of scopes, phases and messages.

/// Opens a scope that lasts to the end of the enclosing block.
///
/// The name is a constant string. Arguments are `name = value`, at most 8. A value is a `bool`, an
/// integer up to 64 bits, a float, a `char` or text, or a reference or option of these
/// ([`Arg`](crate::hot::args::Arg)). Arguments are not moved, and not evaluated while recording is
/// off. `@category = "…"` and `@color = 0xRRGGBB` may come between the name and the arguments.
///
/// A scope in a signal handler is recorded, or counted as dropped if the handler interrupts vor
/// itself. Its call site and its thread must have recorded outside of handlers before: the first
/// use of a call site and a thread's first scope allocate.
///
/// The word `cpu` after the name also measures the CPU time of this scope.
/// [`Config::cpu_time`](crate::setup::Config::cpu_time) measures it for all scopes.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// # let bytes = [0_u8; 16];
/// vor::profile_scope!("decode", len = bytes.len(), codec = "lz4");
/// vor::profile_scope!("decompress", cpu, len = bytes.len());
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_scope {
    ($name:expr $(, @category = $category:expr)? $(, @color = $color:expr)? $(,)?) => {
        let _vor_scope = $crate::__private::open($crate::__private::call_site!(
            $name $(, @category = $category)? $(, @color = $color)?
        ));
    };
    (
        $name:expr $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident = $value:expr)+ $(,)?
    ) => {
        let _vor_scope = $crate::__private::open_with(
            $crate::__private::call_site!(
                $name $(, @category = $category)? $(, @color = $color)? $(, $key)+
            ),
            || [$($crate::__private::Arg::encode(&$value)),+],
        );
    };
    ($name:expr, cpu $(, @category = $category:expr)? $(, @color = $color:expr)? $(,)?) => {
        let _vor_scope = $crate::__private::open_cpu($crate::__private::call_site!(
            $name, cpu $(, @category = $category)? $(, @color = $color)?
        ));
    };
    (
        $name:expr, cpu $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident = $value:expr)+ $(,)?
    ) => {
        let _vor_scope = $crate::__private::open_with(
            $crate::__private::call_site!(
                $name, cpu $(, @category = $category)? $(, @color = $color)? $(, $key)+
            ),
            || [$($crate::__private::Arg::encode(&$value)),+],
        );
    };
}

/// Opens a scope; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! profile_scope {
    (
        $name:expr $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident = $value:expr)* $(,)?
    ) => {
        if false {
            $(let _ = &$value;)*
        }
    };
    ($name:expr, cpu $($rest:tt)*) => {
        $crate::profile_scope!($name $($rest)*)
    };
}

/// Begins a chain of phases, or the next phase of a chain. One clock reading ends a phase and
/// begins the next.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// let mut phases = vor::profile_phase!("load");
/// // … load …
/// vor::profile_phase!(phases, "parse");
/// // … parse; the phase ends with `phases`.
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_phase {
    ($name:literal) => {
        $crate::__private::PhaseChain::begin($crate::__private::call_site!($name))
    };
    ($chain:expr, $name:literal) => {
        $crate::__private::PhaseChain::next(&mut $chain, $crate::__private::call_site!($name))
    };
}

/// Begins a phase; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! profile_phase {
    ($name:literal) => {
        ()
    };
    ($chain:expr, $name:literal) => {
        $chain = ()
    };
}

/// Records a line of text at this moment on this thread, formatted as by `format!`. Nothing is
/// formatted while recording is off.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// # let n = 1;
/// vor::message!("checkpoint {n}");
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! message {
    ($($format:tt)+) => {
        $crate::__private::message(::core::format_args!($($format)+))
    };
}

/// Records a line of text; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! message {
    ($($format:tt)+) => {
        if false {
            let _ = ::core::format_args!($($format)+);
        }
    };
}

/// Makes the static of a call site, and returns a reference to it.
#[doc(hidden)]
#[macro_export]
macro_rules! __vor_call_site {
    (
        @ [$($measured:tt)*]
        $name:expr $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident)* $(,)?
    ) => {{
        static SITE: $crate::__private::CallSite = $crate::__private::CallSite::new(
            $name,
            ::core::module_path!(),
            ::core::file!(),
            ::core::line!(),
        )
        $(.with_category($category))?
        $(.with_color($color))?
        .with_args(&[$(::core::stringify!($key)),*])
        $($measured)*;
        &SITE
    }};
    ($name:expr, cpu $($rest:tt)*) => {
        $crate::__private::call_site!(@ [.with_cpu()] $name $($rest)*)
    };
    ($name:expr $(, $($rest:tt)*)?) => {
        $crate::__private::call_site!(@ [] $name $(, $($rest)*)?)
    };
}
