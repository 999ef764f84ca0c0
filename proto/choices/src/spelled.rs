//! `spelled!`: an enumeration whose values have Hugging Face's spellings.

/// Declares an enumeration: `Name = "spelling" | "alternative",`.
#[macro_export]
macro_rules! spelled {
    (
        $(#[doc = $doc:literal])+
        pub enum $name:ident {
            $(
                $(#[doc = $variant_doc:literal])+
                $variant:ident = $spelling:literal $(| $alias:literal)*,
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $variant_doc])+ $variant,)+
        }

        impl $name {
            /// All values in their order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Alternative spellings, each with Hugging Face's.
            pub const ALIASES: &[(&'static str, &'static str)] = &[$($(($alias, $spelling),)*)+];

            /// Hugging Face's spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling,)+
                }
            }

            /// Returns the value that Hugging Face spells `name`.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}
