//! Builds HTML. Only text of this program (`&'static str`) is added as markup; all other text is escaped.

use crate::terminal::is_bidi;

/// HTML under construction.
#[derive(Debug, Default)]
pub(in crate::report) struct Markup(String);

impl Markup {
    /// Adds markup of this program.
    pub(in crate::report) fn raw(&mut self, markup: &'static str) -> &mut Markup {
        self.0.push_str(markup);
        self
    }

    /// Adds text from any origin, between tags or in an attribute in double quotes. Control characters, and
    /// those that change the direction of text, are written as escapes.
    pub(in crate::report) fn text(&mut self, text: &str) -> &mut Markup {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\t' => self.0.push('\t'),
                '\n' => self.0.push_str("&#10;"),
                c if c.is_control() || is_bidi(c) => self.0.extend(c.escape_default()),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Adds text whose parts in backticks are code.
    pub(in crate::report) fn words(&mut self, text: &str) -> &mut Markup {
        let parts: Vec<&str> = text.split('`').collect();
        for (at, part) in parts.iter().enumerate() {
            let is_code = at % 2 == 1;
            if is_code && at + 1 == parts.len() {
                self.raw("`").text(part);
            } else if is_code {
                self.raw("<code>").text(part).raw("</code>");
            } else {
                self.text(part);
            }
        }
        self
    }

    pub(in crate::report) fn code(&mut self, text: &str) -> &mut Markup {
        self.raw("<code>").text(text).raw("</code>")
    }

    /// Adds a number, with commas between thousands.
    pub(in crate::report) fn number(&mut self, number: u64) -> &mut Markup {
        let digits = number.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                self.0.push(',');
            }
            self.0.push(digit);
        }
        self
    }

    /// Adds a number without commas, for programs.
    pub(in crate::report) fn digits(&mut self, number: u64) -> &mut Markup {
        self.0.push_str(&number.to_string());
        self
    }

    /// Adds a count with its noun: `1 file`, `2,000 files`.
    pub(in crate::report) fn count(&mut self, number: u64, what: &'static str) -> &mut Markup {
        self.number(number).raw(" ").raw(what).raw(if number == 1 { "" } else { "s" })
    }

    /// Adds dollars with cents.
    pub(in crate::report) fn dollars(&mut self, dollars: f64) -> &mut Markup {
        self.0.push_str(&format!("${dollars:.2}"));
        self
    }

    pub(in crate::report) fn append(&mut self, other: &Markup) -> &mut Markup {
        self.0.push_str(&other.0);
        self
    }

    pub(in crate::report) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Markup;

    #[test]
    fn text_is_never_markup() {
        let mut markup = Markup::default();
        markup.raw("<p title=\"").text("\"><script>&'").raw("\">").words("a `<b>` c ` d\u{202e}\u{0}\n");
        assert_eq!(
            markup.as_str(),
            "<p title=\"&quot;&gt;&lt;script&gt;&amp;&#39;\">a <code>&lt;b&gt;</code> c ` d\\u{202e}\\u{0}&#10;"
        );
    }

    #[test]
    fn thousands_have_commas() {
        let number = |n: u64| Markup::default().number(n).as_str().to_owned();
        assert_eq!(
            [number(0), number(999), number(1000), number(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            Markup::default().count(1, "file").raw(", ").count(2000, "error").as_str(),
            "1 file, 2,000 errors"
        );
    }
}
