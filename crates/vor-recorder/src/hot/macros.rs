//! The macros of scopes, phases and messages.

/// Opens a scope that lasts to the end of the enclosing block.
///
/// The name is a constant string. Arguments are `name = value`, at most 8. A value is a `bool`, an
/// integer up to 64 bits, a float, a `char` or text, or a reference or option of these
/// ([`Arg`](crate::hot::args::Arg)). Arguments are not moved, and not evaluated while recording is
/// off. `@category = "…"` and `@color = 0xRRGGBB` may come between the name and the arguments. One
/// value without a name is the argument `data`.
///
/// A scope in a signal handler is recorded, or counted as dropped if the handler interrupts vor
/// itself. Its call site and its thread must have recorded outside of handlers before: the first
/// use of a call site and a thread's first scope allocate.
///
/// The word `cpu` after the name also measures the CPU time of this scope, and `waits` also for how
/// long it waited for a processor or for something else.
/// [`Config::cpu_time`](crate::setup::Config::cpu_time) and
/// [`Config::waits`](crate::setup::Config::waits) measure that for all scopes.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// # let bytes = [0_u8; 16];
/// vor::profile_scope!("decode", len = bytes.len(), codec = "lz4");
/// vor::profile_scope!("decompress", cpu, len = bytes.len());
/// vor::profile_scope!("send", waits);
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_scope {
    ($name:expr $(, $($rest:tt)*)?) => {
        let _vor_scope = $crate::__private::scope!([] $name $(, $($rest)*)?);
    };
}

/// Opens a scope with the name of the enclosing function, to the end of the enclosing block. It has
/// the arguments of [`profile_scope!`](crate::profile_scope).
///
/// The attribute `#[vor::profile]` does the same from outside of the function. The name is the
/// function's path within its module, such as `Renderer::draw`.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// fn decode(bytes: &[u8]) {
///     vor::profile_function!(len = bytes.len());
/// }
/// # decode(&[1]);
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_function {
    ($($args:tt)*) => {
        fn __vor_function() {}
        let _vor_scope = $crate::__private::scope!(
            [.in_function(|| ::core::any::type_name_of_val(&__vor_function))] "", $($args)*
        );
    };
}

/// Opens a scope to the end of the enclosing block, if a condition holds.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// # let batch = [0; 200];
/// vor::profile_scope_if!(batch.len() > 100, "large batch", len = batch.len());
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_scope_if {
    ($condition:expr, $name:expr $(, $($rest:tt)*)?) => {
        let _vor_scope = if $condition {
            ::core::option::Option::Some($crate::__private::scope!([] $name $(, $($rest)*)?))
        } else {
            ::core::option::Option::None
        };
    };
}

/// Opens a scope and returns its guard: the scope ends when the guard is dropped. It has the
/// arguments of [`profile_scope!`](crate::profile_scope).
///
/// [`scope`](crate::hot::scope::scope) does the same for a name that is not constant.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// let waiting = vor::profile_scope_custom!("waiting", jobs = 3);
/// drop(waiting); // it ends here, in the middle of a block
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_scope_custom {
    ($name:expr $(, $($rest:tt)*)?) => {
        $crate::__private::scope!([] $name $(, $($rest)*)?)
    };
}

/// Opens a scope with the name of the enclosing function, to the end of the enclosing block, if a
/// condition holds. It has the arguments of [`profile_scope!`](crate::profile_scope).
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// fn decode(bytes: &[u8]) {
///     vor::profile_function_if!(bytes.len() > 100, len = bytes.len());
/// }
/// # decode(&[1; 200]);
/// ```
#[cfg(not(feature = "off"))]
#[macro_export]
macro_rules! profile_function_if {
    ($condition:expr $(, $($args:tt)*)?) => {
        let _vor_scope = if $condition {
            fn __vor_function() {}
            ::core::option::Option::Some($crate::__private::scope!(
                [.in_function(|| ::core::any::type_name_of_val(&__vor_function))] "",
                $($($args)*)?
            ))
        } else {
            ::core::option::Option::None
        };
    };
}

/// Opens a scope and returns its guard. Builder calls for its call site come first, in brackets.
#[doc(hidden)]
#[macro_export]
macro_rules! __vor_scope {
    (
        [$($site:tt)*] $name:expr
        $(, @category = $category:expr)? $(, @color = $color:expr)? $(,)?
    ) => {
        $crate::__private::open($crate::__private::call_site!(
            @ [$($site)*] $name $(, @category = $category)? $(, @color = $color)?
        ))
    };
    (
        [$($site:tt)*] $name:expr
        $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident = $value:expr)+ $(,)?
    ) => {
        $crate::__private::open_with(
            $crate::__private::call_site!(
                @ [$($site)*] $name $(, @category = $category)? $(, @color = $color)? $(, $key)+
            ),
            || [$($crate::__private::Arg::encode(&$value)),+],
        )
    };
    (
        [$($site:tt)*] $name:expr, cpu
        $(, @category = $category:expr)? $(, @color = $color:expr)? $(,)?
    ) => {
        $crate::__private::open_cpu($crate::__private::call_site!(
            @ [$($site)* .with_cpu()] $name $(, @category = $category)? $(, @color = $color)?
        ))
    };
    (
        [$($site:tt)*] $name:expr, cpu
        $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident = $value:expr)+ $(,)?
    ) => {
        $crate::__private::open_with(
            $crate::__private::call_site!(
                @ [$($site)* .with_cpu()] $name
                $(, @category = $category)? $(, @color = $color)? $(, $key)+
            ),
            || [$($crate::__private::Arg::encode(&$value)),+],
        )
    };
    (
        [$($site:tt)*] $name:expr, waits
        $(, @category = $category:expr)? $(, @color = $color:expr)?
        $(, $key:ident = $value:expr)* $(,)?
    ) => {
        $crate::__private::scope!(
            [$($site)* .with_waits()] $name
            $(, @category = $category)? $(, @color = $color)? $(, $key = $value)*
        )
    };
    // One value without a name, as puffin takes it.
    ([$($site:tt)*] $name:expr, $data:expr $(,)?) => {
        $crate::__private::scope!([$($site)*] $name, data = $data)
    };
    ([$($site:tt)*] $($other:tt)*) => {
        ::core::compile_error!(
            "the arguments of a scope are `key = value`, or one value without a name; `cpu`, \
             `waits`, `@category = …` and `@color = …` come before them"
        )
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
    ($name:expr, waits $($rest:tt)*) => {
        $crate::profile_scope!($name $($rest)*)
    };
    ($name:expr, $data:expr $(,)?) => {
        $crate::profile_scope!($name, data = $data)
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "the arguments of a scope are `key = value`, or one value without a name; `cpu`, \
             `waits`, `@category = …` and `@color = …` come before them"
        )
    };
}

/// Opens a scope with the name of the enclosing function; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! profile_function {
    ($($args:tt)*) => {
        $crate::profile_scope!("", $($args)*)
    };
}

/// Opens a scope if a condition holds; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! profile_scope_if {
    ($condition:expr, $name:expr $(, $($rest:tt)*)?) => {
        if false {
            let _ = $condition;
            $crate::profile_scope!($name $(, $($rest)*)?);
        }
    };
}

/// Opens a scope and returns its guard; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! profile_scope_custom {
    ($name:expr $(, $($rest:tt)*)?) => {{
        $crate::profile_scope!($name $(, $($rest)*)?);
        $crate::hot::scope::scope("")
    }};
}

/// Opens a scope with the name of the enclosing function if a condition holds; compiled out.
#[cfg(feature = "off")]
#[macro_export]
macro_rules! profile_function_if {
    ($condition:expr $(, $($args:tt)*)?) => {
        $crate::profile_scope_if!($condition, "", $($($args)*)?);
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
    ($name:expr, waits $($rest:tt)*) => {
        $crate::__private::call_site!(@ [.with_waits()] $name $($rest)*)
    };
    ($name:expr $(, $($rest:tt)*)?) => {
        $crate::__private::call_site!(@ [] $name $(, $($rest)*)?)
    };
}
