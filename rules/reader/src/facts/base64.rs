//! Base64 as Secrets have it.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};

/// What Go's `base64.StdEncoding` accepts: padding is required, and the bits after the last byte may be set.
const GO: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// The bytes of a text in the standard alphabet, with padding. As in Go, line breaks are ignored. `None` if it is something else.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    GO.decode(text.replace(['\r', '\n'], "")).ok()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn texts_of_secrets() {
        for (text, bytes) in [
            ("", Some("")),
            ("dG9rZW4=", Some("token")),
            ("dG9rZW4K", Some("token\n")),
            ("dG9r\nZW4K", Some("token\n")),
            ("dG9rZW4\r\n=\r\n", Some("token")),
            ("dG9rZW5=", Some("token")),
            ("dG9rZW4", None),
            ("dG9r ZW4K", None),
            ("dG9rZW4=dG9r", None),
            ("dG9rZW4==", None),
            ("to-ken==", None),
            ("====", None),
        ] {
            assert_eq!(decoded(text), bytes.map(|bytes| bytes.as_bytes().to_vec()), "{text}");
        }
    }
}
