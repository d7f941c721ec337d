//! The same tests of types of the standard library, or of another crate, and of ours.

/// Makes two tests of each body: one with the names of the other types, which the first block
/// imports, and one with ours, with recording off and then on.
macro_rules! like_std {
    (
        { $($of_others:item)* }
        { $($of_vor:item)* }
        $(fn $name:ident() $body:block)*
    ) => {
        mod of_others {
            $($of_others)*

            use super::*;

            $(
                #[test]
                fn $name() $body
            )*
        }

        mod of_vor {
            use vor_fixtures::own_process;
            use vor_recorder::setup::Config;
            $($of_vor)*

            use super::*;

            $(
                #[test]
                fn $name() {
                    own_process!();
                    fn check() $body
                    check();
                    Config::new().enable();
                    check();
                }
            )*
        }
    };
}

pub(crate) use like_std;
