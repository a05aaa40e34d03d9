//! Durations and sizes as settings and policies write them. Pure.

/// Durations as `"30s"`, `"10m"`, `"1h"`.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    /// Deserializes a duration.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|_| D::Error::custom(format!("`{text}` is no duration: write it like \"30s\", \"10m\" or \"1h\"")))
    }
}

/// Durations as in [`duration`], or `"off"`.
pub mod duration_or_off {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    /// Deserializes a duration; `None` for `"off"`.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(None);
        }
        let wrong = |_| D::Error::custom(format!("`{text}` is no duration: write it like \"5m\" or \"1h\", or \"off\""));
        humantime::parse_duration(&text).map(Some).map_err(wrong)
    }
}

/// Sizes as `"100KiB"` or `"32MiB"`, or as a number of bytes.
pub mod bytes {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};

    /// Deserializes a size in bytes.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(Size)
    }

    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a size like \"100KiB\" or \"32MiB\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            let wrong = |_| E::custom(format!("`{text}` is no size: write it like \"100KiB\" or \"32MiB\""));
            text.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(wrong)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
            u64::try_from(number).map_err(|_| E::custom(format!("{number} is no size: write it like \"100KiB\"")))
        }
    }
}
