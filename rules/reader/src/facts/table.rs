//! Tables of facts: one row a line, its fields between tabs. Lines that begin with `#` are comments.

/// The rows of a table.
pub fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    read(text, Some)
}

/// What the rows of a table say. A row that has another number of fields, or that `parse` does not understand, is left out,
/// and fails every test that reads the table.
pub fn read<const N: usize, T>(
    text: &'static str,
    parse: impl Fn([&'static str; N]) -> Option<T>,
) -> impl Iterator<Item = T> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
        let mut fields = line.split('\t');
        let row: [Option<&str>; N] = std::array::from_fn(|_| fields.next());
        let is_whole = row.iter().all(Option::is_some) && fields.next().is_none();
        let read = if is_whole { parse(row.map(Option::unwrap_or_default)) } else { None };
        debug_assert!(read.is_some(), "a row that is not one of {N} fields: {line}");
        read
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_fields() {
        let all: Vec<[&str; 2]> = rows("# name\tvalue\na\t1\nb\t\n").collect();
        assert_eq!(all, [["a", "1"], ["b", ""]]);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a row that is not one of 2 fields: b")]
    fn a_row_without_a_field_fails_tests() {
        let _ = rows::<2>("a\t1\nb\n").count();
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a row that is not one of 1 fields: x")]
    fn a_row_that_is_not_understood_fails_tests() {
        let _ = read("1\nx\n", |[number]: [&str; 1]| number.parse::<u8>().ok()).count();
    }
}
