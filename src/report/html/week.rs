//! The disruptions that budgets allow in a week: a picture of 7 days with 24 hours, and a sentence.

use super::markup::Markup;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// The width of an hour and the height of a day.
const HOUR: usize = 12;
const DAY: usize = 14;
const LEFT: usize = 30;
const TOP: usize = 14;

/// The letters of the JSON report, their class in the picture, and their text.
const STATES: [(char, &str, &str); 5] = [
    ('#', "blocked", "blocked"),
    ('/', "blocked-partly", "blocked at times"),
    ('.', "limited", "limited"),
    ('+', "unlimited-partly", "unlimited at times"),
    ('!', "unlimited", "unlimited"),
];

fn state(letter: char) -> (&'static str, &'static str) {
    STATES
        .iter()
        .find(|(known, ..)| *known == letter)
        .map_or(("limited", "limited"), |(_, class, words)| (class, words))
}

/// The runs of equal hours of a day: start, end, letter.
fn runs(day: &str) -> Vec<(usize, usize, char)> {
    let mut out: Vec<(usize, usize, char)> = Vec::new();
    for (hour, letter) in day.chars().enumerate() {
        match out.last_mut() {
            Some((_, to, known)) if *known == letter => *to = hour + 1,
            _ => out.push((hour, hour + 1, letter)),
        }
    }
    out
}

/// The week as a sentence: `limited, Mon–Fri 09:00–17:00 blocked`.
pub(super) fn sentence(days: &[&str]) -> String {
    let count = |letter: char| days.iter().flat_map(|day| day.chars()).filter(|c| *c == letter).count();
    let Some(most) = STATES.iter().map(|(letter, ..)| *letter).rev().max_by_key(|letter| count(*letter))
    else {
        return String::new();
    };
    let mut parts: Vec<(usize, usize, String)> = Vec::new();
    for (number, day) in days.iter().enumerate() {
        let others = runs(day).into_iter().filter(|(.., letter)| *letter != most);
        let text: Vec<String> = others
            .map(|(from, to, letter)| match (from, to) {
                (0, 24) => state(letter).1.to_owned(),
                _ => format!("{from:02}:00–{to:02}:00 {}", state(letter).1),
            })
            .collect();
        let text = text.join(", ");
        match parts.last_mut() {
            Some((_, last, known)) if *known == text => *last = number,
            _ => parts.push((number, number, text)),
        }
    }
    let mut out = vec![if parts.iter().all(|(.., text)| text.is_empty()) {
        format!("{} all week", state(most).1)
    } else {
        state(most).1.to_owned()
    }];
    let name = |day: usize| DAYS.get(day).copied().unwrap_or_default();
    for (first, last, text) in parts.iter().filter(|(.., text)| !text.is_empty()) {
        out.push(match last - first {
            0 => format!("{} {text}", name(*first)),
            _ => format!("{}–{} {text}", name(*first), name(*last)),
        });
    }
    out.join("; ")
}

/// Writes the sentence, and the picture if hours differ.
pub(super) fn week(out: &mut Markup, reasons: &[&str], days: &[&str], zone: Option<&str>) {
    let words = sentence(days);
    out.raw("<div class=\"week\"><p>");
    if !reasons.is_empty() && reasons.len() < 3 {
        out.text(&reasons.join(", ")).raw(": ");
    }
    let same = days.iter().all(|day| day.chars().all(|letter| days[0].starts_with(letter)));
    out.text(&words);
    if !same {
        out.raw(" <span class=\"quiet\">(UTC)</span>");
    }
    out.raw("</p>");
    if !same {
        picture(out, days, &words);
        out.raw("<ul class=\"legend\">");
        for (letter, class, words) in STATES {
            if days.iter().any(|day| day.contains(letter)) {
                out.raw("<li><svg viewBox=\"0 0 12 12\" width=\"12\" height=\"12\" aria-hidden=\"true\">");
                cell(out, (0, 0), (12, 12), class);
                out.raw("</svg>").raw(words).raw("</li>");
            }
        }
        out.raw("</ul>");
    }
    if let Some(zone) = zone {
        out.raw("<p class=\"quiet\">The schedules of Karpenter are in UTC; the configuration names ")
            .text(zone)
            .raw(".</p>");
    }
    out.raw("</div>");
}

fn picture(out: &mut Markup, days: &[&str], words: &str) {
    out.raw("<svg class=\"grid\" role=\"img\" viewBox=\"0 0 326 114\" aria-label=\"")
        .text(words)
        .raw(" (UTC)\">");
    for hour in [0, 6, 12, 18, 24] {
        out.raw("<text class=\"hour\" y=\"10\" x=\"").digits((LEFT + hour * HOUR) as u64).raw("\">");
        out.digits(hour as u64).raw("</text>");
    }
    for (number, day) in days.iter().enumerate().take(DAYS.len()) {
        let y = TOP + number * DAY;
        out.raw("<text class=\"day\" x=\"0\" y=\"")
            .digits(y as u64 + 10)
            .raw("\">")
            .raw(DAYS[number])
            .raw("</text>");
        for (from, to, letter) in runs(day) {
            cell(out, (LEFT + from * HOUR, y), ((to - from) * HOUR, DAY - 2), state(letter).0);
        }
    }
    // Every sixth hour has a line.
    for hour in [6, 12, 18] {
        let x = (LEFT + hour * HOUR) as u64;
        out.raw("<path class=\"rule\" d=\"M").digits(x).raw(" 14v96\"/>");
    }
    out.raw("</svg>");
}

/// Draws some hours of a day. If they are partly limited, the upper half shows that.
fn cell(out: &mut Markup, (x, y): (usize, usize), (width, height): (usize, usize), class: &'static str) {
    let rect = |out: &mut Markup, class: &'static str, y: usize, height: usize| {
        out.raw("<rect class=\"").raw(class).raw("\" x=\"").digits(x as u64).raw("\" y=\"").digits(y as u64);
        out.raw("\" width=\"").digits(width as u64).raw("\" height=\"").digits(height as u64).raw("\"/>");
    };
    match class {
        "blocked-partly" | "unlimited-partly" => {
            rect(out, "limited", y, height);
            rect(
                out,
                if class == "blocked-partly" { "blocked" } else { "unlimited" },
                y + height / 2,
                height / 2,
            );
        }
        class => rect(out, class, y, height),
    }
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_week_in_words() {
        let (free, work) = (".".repeat(24), format!("{}{}{}", ".".repeat(9), "#".repeat(8), ".".repeat(7)));
        let (free, work) = (free.as_str(), work.as_str());
        let blocked = "#".repeat(24);
        assert_eq!(sentence(&[free; 7]), "limited all week");
        assert_eq!(
            sentence(&[work, work, work, work, work, free, free]),
            "limited; Mon–Fri 09:00–17:00 blocked"
        );
        assert_eq!(
            sentence(&[free, work, free, free, free, free, &blocked]),
            "limited; Tue 09:00–17:00 blocked; Sun blocked"
        );
    }
}
