//! Values of options that are neither numbers nor switches.

use std::str::FromStr;

macro_rules! values {
    ($(
        $(#[doc = $doc:literal])+
        $kind:ident {
            $(#[doc = $of_first:literal])+
            $first:ident = $first_name:literal,
            $($(#[doc = $of:literal])+ $value:ident = $name:literal,)*
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub enum $kind {
                $(#[doc = $of_first])+
                #[default]
                $first,
                $($(#[doc = $of])+ $value,)*
            }

            impl $kind {
                /// The names of the values, of which the first is the default.
                pub(super) fn names() -> Vec<&'static str> {
                    vec![$first_name, $($name),*]
                }
            }

            impl FromStr for $kind {
                type Err = ();

                fn from_str(text: &str) -> Result<$kind, ()> {
                    match text {
                        $first_name => Ok($kind::$first),
                        $($name => Ok($kind::$value),)*
                        _ => Err(()),
                    }
                }
            }
        )+
    };
}

values! {
    /// The fates of donated arguments in a plugin, all of which users reported.
    Donation {
        /// Results replace arguments.
        Works = "works",
        /// Arguments stay.
        Ignored = "ignored",
        /// Results that replace arguments are wrong.
        Garbage = "garbage",
        /// The compiler refuses programs that read an argument after its replacement.
        Refused = "refused",
    }

    /// The SDK after 2.32, as far as AWS announces it: its compiler refuses integer operations that are computed in
    /// float32, unless a flag asks for that. Nothing is public about the sizes of arguments in its plugin.
    NextSdk {
        /// SDK 2.32.
        No = "no",
        /// The plugin has more functions, and takes arguments of the version that the client asks for.
        Serves = "serves",
        /// The plugin also compares sizes with those of its own version.
        Strict = "strict",
    }

    /// The places of the texts of compiler and runtime, about which nothing is public besides some logs.
    Errors {
        /// Prints errors on standard error, and in the plugin's errors.
        Whole = "whole",
        /// Prints errors on standard error alone: the plugin's say that something failed.
        Brief = "brief",
    }

    /// The fate of an execution that asks for no events of completion.
    NullEvents {
        /// The plugin refuses it.
        Error = "error",
        /// It is executed.
        Works = "works",
        /// It is executed, and what it needed for the events is never freed.
        Leaks = "leaks",
    }

    /// The folder in which the plugin gives programs to the compiler.
    WorkFolder {
        /// The folder of `TMPDIR`.
        TmpDir = "tmpdir",
        /// The user's below `/tmp`, as torch's wrapper has it whatever `TMPDIR` is.
        Tmp = "tmp",
    }
}
