//! Colours, links, and lines that break at words.

use gpulint_rules::{Rule, Severity};

/// Whether text is coloured, and whether rules are links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paint {
    pub(crate) color: bool,
    /// Whether the terminal supports links (OSC 8).
    pub(crate) links: bool,
}

/// The role of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    /// The location of something.
    Place,
    Removed,
    /// A line of a diff that is added, and a fix in a list.
    Added,
    Of(Severity),
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Place => "36",
            Style::Removed => "31",
            Style::Added => "32",
            Style::Of(Severity::Error) => "1;31",
            Style::Of(Severity::Warning) => "1;33",
            Style::Of(Severity::Info) => "1;36",
        }
    }
}

impl Paint {
    pub(crate) fn text(self, style: Style, text: &str) -> String {
        match style.code() {
            code if self.color && !code.is_empty() && !text.is_empty() => {
                format!("\x1b[{code}m{text}\x1b[0m")
            }
            _ => text.to_owned(),
        }
    }

    pub(crate) fn link(self, rule: &Rule, text: &str) -> String {
        if self.links { format!("\x1b]8;;{}\x1b\\{text}\x1b]8;;\x1b\\", rule.url()) } else { text.to_owned() }
    }

    /// The text of a piece in its style, as a link if the piece has a rule.
    fn piece(self, piece: &Piece, text: &str) -> String {
        let painted = self.text(piece.style, text);
        match piece.rule {
            Some(rule) if self.links => self.link(rule, &painted),
            _ => painted,
        }
    }
}

/// Pieces of text that form one paragraph.
#[derive(Debug, Default)]
pub(super) struct Line {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    text: String,
    style: Style,
    /// The rule whose manual page the piece links to.
    rule: Option<&'static Rule>,
}

#[derive(Debug)]
struct Word<'l> {
    text: &'l str,
    piece: &'l Piece,
    /// Whether there is a space before it.
    is_separate: bool,
}

impl Line {
    /// Adds text. A space begins a new word; text without one continues the previous word.
    pub(super) fn add(&mut self, style: Style, text: &str) -> &mut Line {
        self.pieces.push(Piece { text: text.to_owned(), style, rule: None });
        self
    }

    pub(super) fn add_link(&mut self, style: Style, text: &str, rule: &'static Rule) -> &mut Line {
        self.pieces.push(Piece { text: text.to_owned(), style, rule: Some(rule) });
        self
    }

    fn words(&self) -> Vec<Word<'_>> {
        let mut words = Vec::new();
        for piece in &self.pieces {
            let text = piece.text.as_str();
            let mut is_separate = text.starts_with(' ');
            for text in text.strip_prefix(' ').unwrap_or(text).split(' ') {
                words.push(Word { text, piece, is_separate });
                is_separate = true;
            }
        }
        words
    }

    /// The text in lines of at most `width` columns; all but the first are indented. A longer word breaks
    /// after `/`, or where the line is full. Without a width the text is one line.
    pub(super) fn lines(&self, width: Option<usize>, indent: usize, paint: Paint) -> Vec<String> {
        let Some(width) = width else {
            return vec![self.pieces.iter().map(|piece| paint.piece(piece, &piece.text)).collect()];
        };
        let mut out = Layouter { width, indent, lines: vec![String::new()], used: 0 };
        let words = self.words();
        let mut rest = words.as_slice();
        while let Some(first) = rest.first() {
            // Pieces without a space between them stay on one line.
            let joined = rest[1..].iter().take_while(|word| !word.is_separate).count() + 1;
            let (together, after) = rest.split_at(joined);
            rest = after;
            let length = together.iter().map(|word| word.text.chars().count()).sum::<usize>();
            let space = usize::from(first.is_separate && out.used > 0);
            let begins = out.lines.len() == 1 && out.used == 0 || out.used == indent && out.lines.len() > 1;
            if !begins && out.used + space + length > out.width {
                out.next_line();
            } else if space > 0 && !begins {
                out.push(" ", " ");
            }
            for word in together {
                out.word(word, paint);
            }
        }
        out.lines
    }
}

struct Layouter {
    width: usize,
    indent: usize,
    lines: Vec<String>,
    /// Number of columns that the last line uses.
    used: usize,
}

impl Layouter {
    fn next_line(&mut self) {
        self.lines.push(" ".repeat(self.indent));
        self.used = self.indent;
    }

    /// Adds text to the last line. `painted` is the text with its style.
    fn push(&mut self, text: &str, painted: &str) {
        if let Some(line) = self.lines.last_mut() {
            line.push_str(painted);
        }
        self.used += text.chars().count();
    }

    fn word(&mut self, word: &Word<'_>, paint: Paint) {
        let mut text = word.text;
        loop {
            let room = self.width.saturating_sub(self.used).max(1);
            let (now, later) = split_word(text, room, self.width.saturating_sub(self.indent).max(1));
            self.push(now, &paint.piece(word.piece, now));
            if later.is_empty() {
                return;
            }
            self.next_line();
            text = later;
        }
    }
}

/// Splits a word into the part that fits `room` columns of a line, and the rest. `whole` is the number of
/// columns of an empty line.
pub(super) fn split_word(word: &str, room: usize, whole: usize) -> (&str, &str) {
    let length = word.chars().count();
    if length <= room {
        return (word, "");
    }
    let end = |columns: usize| word.char_indices().nth(columns).map_or(word.len(), |(at, _)| at);
    let fits = &word[..end(room)];
    match fits.rfind('/') {
        Some(slash) if slash > 0 => word.split_at(slash + 1),
        // The word fits a line of its own.
        _ if length <= whole && room < whole => ("", word),
        _ => word.split_at(end(room)),
    }
}

#[cfg(test)]
mod tests {
    use gpulint_rules::{Severity, find_rule};

    use super::{Line, Paint, Style, split_word};

    const PLAIN: Paint = Paint { color: false, links: false };

    #[test]
    fn lines_break_at_words_and_paths_at_slashes() {
        let mut line = Line::default();
        line.add(Style::Place, "clusters/prod/pools.yaml:12:5:")
            .add(Style::Bold, " error[a]")
            .add(Style::Plain, " one two");
        assert_eq!(line.lines(None, 2, PLAIN), ["clusters/prod/pools.yaml:12:5: error[a] one two"]);
        assert_eq!(line.lines(Some(40), 2, PLAIN), ["clusters/prod/pools.yaml:12:5: error[a]", "  one two"]);
        let narrow = line.lines(Some(20), 2, PLAIN);
        assert_eq!(narrow, ["clusters/prod/", "  pools.yaml:12:5:", "  error[a] one two"]);
        assert!(narrow.iter().all(|line| line.chars().count() <= 20));
    }

    #[test]
    fn a_word_without_a_slash_breaks_where_the_line_is_full() {
        assert_eq!(split_word("abcdef", 4, 4), ("abcd", "ef"));
        assert_eq!(split_word("abcdef", 4, 8), ("", "abcdef"));
        assert_eq!(split_word("ab/def", 4, 4), ("ab/", "def"));
        let mut line = Line::default();
        line.add(Style::Plain, "abcdefghij k");
        assert_eq!(line.lines(Some(6), 2, PLAIN), ["abcdef", "  ghij", "  k"]);
    }

    #[test]
    fn styles_and_links_take_no_room() {
        let rule = find_rule("yaml-syntax").unwrap();
        let mut line = Line::default();
        line.add_link(Style::Of(Severity::Error), "error[yaml-syntax]:", rule).add(Style::Plain, " a b");
        let painted = line.lines(Some(23), 2, Paint { color: true, links: true });
        assert_eq!(
            painted,
            [format!("\x1b]8;;{}\x1b\\\x1b[1;31merror[yaml-syntax]:\x1b[0m\x1b]8;;\x1b\\ a b", rule.url())]
        );
        assert_eq!(line.lines(Some(22), 2, PLAIN), ["error[yaml-syntax]: a", "  b"]);
    }
}
