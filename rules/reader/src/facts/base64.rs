//! Base64 as Secrets have it.

/// The bytes of a text in the standard alphabet, with padding. As in Go, line breaks are ignored. `None` if it is something else.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in &text[..text.len() - padding] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(((bits >> count) & 0xff) as u8);
        }
    }
    Some(bytes)
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
            ("dG9rZW4", None),
            ("dG9r ZW4K", None),
            ("to-ken==", None),
            ("====", None),
        ] {
            assert_eq!(decoded(text), bytes.map(|bytes| bytes.as_bytes().to_vec()), "{text}");
        }
    }
}
