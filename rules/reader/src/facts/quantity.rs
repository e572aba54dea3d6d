//! Kubernetes `resource.Quantity`: the numbers of `limits`, `requests` and volume sizes.
//!
//! Parses exactly what `k8s.io/apimachinery/pkg/api/resource.ParseQuantity` parses (compared with v0.34.1)
//! and keeps the exact value in nano units. Callers convert YAML numbers to text, or use
//! [`Quantity::from_integer`].

use std::cmp::Ordering;
use std::fmt;

use crate::tree::node::Node;
use crate::tree::scalar::Scalar;

/// Nano units in one unit.
const NANO: i128 = 1_000_000_000;
/// Go caps a binary quantity at the largest `int64` number of units.
const BINARY_CAP: i128 = i64::MAX as i128 * NANO;

/// The notation of a quantity, which determines how Go formats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// No suffix or one of `n u m k M G T P E`.
    Decimal,
    /// One of `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// An exponent such as `e3` or `E-3`.
    Exponent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantityError {
    Empty,
    /// There is no digit before the suffix (`Gi`, `.`, `-`). Go's parser alone would return 0, but the
    /// published grammar of quantities and every CRD pattern reject it.
    NoDigits,
    /// The text after the number is not a valid suffix; contains that text (`K`, ` Gi`, `GB`, `e`).
    Suffix(String),
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a quantity may not be empty"),
            Self::NoDigits => f.write_str("a quantity needs at least one digit"),
            Self::Suffix(s) => write!(f, "unknown quantity suffix {s:?}"),
        }
    }
}

impl std::error::Error for QuantityError {}

/// An exact amount in nano units. Only the amount is compared, so `1Gi` equals `1024Mi`.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    /// The amount 0.
    pub const ZERO: Self = Self { nano: 0, format: Format::Decimal };

    /// An integer number of units, for a YAML integer.
    fn from_integer(units: i64) -> Self {
        Self { nano: i128::from(units) * NANO, format: Format::Decimal }
    }

    /// Parses a quantity: `[+-]`, digits with at most one dot, and a suffix (`n u m k M G T P E`, `Ki Mi Gi
    /// Ti Pi Ei`, `e3`, `E-3` or none). Case matters (`1K` is rejected), and spaces are rejected.
    ///
    /// Anything finer than one nano is rounded away from zero and binary amounts are capped at 2^63-1 units,
    /// both as Go does; decimal amounts beyond `i128` nano (1.7e29 units) are capped there, which Go does not
    /// do.
    ///
    /// # Errors
    /// [`QuantityError`] if the API server would reject the text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::NoDigits);
        }
        let (ten, kibi, format) =
            read_suffix(suffix).ok_or_else(|| QuantityError::Suffix(suffix.to_owned()))?;
        if fraction.is_empty()
            && let Some(nano) = whole_amount(whole, ten, kibi)
        {
            return Ok(Self { nano: if negative { -nano } else { nano }, format });
        }
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
        for _ in 0..kibi {
            times_1024(&mut digits);
        }
        let shift = 9 + ten - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let mut nano = shifted(&digits, shift);
        if format == Format::Binary {
            nano = nano.min(BINARY_CAP);
        }
        Ok(Self { nano: if negative { -nano } else { nano }, format })
    }

    /// Parses a quantity as the API server decodes one in a built-in kind: leading and trailing spaces are
    /// removed. Tabs and line breaks are not, because JSON escapes them, and the decoder of quantities does
    /// not resolve escapes. The patterns of CRDs reject any spaces.
    ///
    /// # Errors
    /// [`QuantityError`] if the API server would reject the text.
    pub fn decode(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text.trim_matches(is_blank))
    }

    /// The quantity at a node, decoded as in a built-in kind. `None` for placeholders, for other types, and where the API
    /// server would reject it.
    pub fn at(node: &Node<'_>) -> Option<Self> {
        match node.scalar()? {
            Scalar::Int(units) => Some(Self::from_integer(units)),
            _ => Self::decode(&node.string_or_number()?).ok(),
        }
    }

    /// The quantity at a node of a map of resources, in which Go decodes null to 0.
    pub fn at_or_zero(node: &Node<'_>) -> Option<Self> {
        if node.is_null() { Some(Self::ZERO) } else { Self::at(node) }
    }

    /// The exact amount in nano units (10^-9).
    pub fn nano(self) -> i128 {
        self.nano
    }

    /// The amount in thousandths, fractions rounded away from zero (Go's `MilliValue`, without its
    /// `int64` cap). CPU quantities are compared in this unit.
    pub fn milli(self) -> i128 {
        divide_up(self.nano, NANO / 1000)
    }

    /// The amount in whole units, fractions rounded away from zero (Go's `Value`, without its
    /// `int64` cap).
    pub fn value(self) -> i128 {
        divide_up(self.nano, NANO)
    }

    /// Whether the amount is 0.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether the amount is a whole number of units, as extended resources (GPUs) require.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    pub fn format(self) -> Format {
        self.format
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

/// Go's canonical form: no fraction, the largest suffix that keeps the value exact; binary
/// quantities below 1024 or with a fraction are shown in decimal. (Go itself echoes some texts
/// such as `+5` or `007` unchanged; here they become `5` and `7`.)
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && self.is_whole() && (self.nano / NANO).abs() >= 1024 {
            let mut amount = self.nano / NANO;
            let mut power = 0;
            while amount % 1024 == 0 && power < 6 {
                amount /= 1024;
                power += 1;
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
            return write!(f, "{amount}{suffix}");
        }
        let mut amount = self.nano;
        let mut thousands = 0_u8;
        while amount % 1000 == 0 && (thousands < 9 || self.format == Format::Exponent) {
            amount /= 1000;
            thousands += 1;
        }
        if self.format == Format::Exponent {
            return match thousands {
                3 => write!(f, "{amount}"),
                n => write!(f, "{amount}e{}", i64::from(n) * 3 - 9),
            };
        }
        let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][usize::from(thousands)];
        write!(f, "{amount}{suffix}")
    }
}

/// The characters that Go's `strings.TrimSpace` removes and Go's JSON encoder does not escape.
fn is_blank(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{2028}' | '\u{2029}')
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Decimal exponent, number of factors 1024, format.
fn read_suffix(suffix: &str) -> Option<(i64, u8, Format)> {
    Some(match suffix {
        "n" => (-9, 0, Format::Decimal),
        "u" => (-6, 0, Format::Decimal),
        "m" => (-3, 0, Format::Decimal),
        "" => (0, 0, Format::Decimal),
        "k" => (3, 0, Format::Decimal),
        "M" => (6, 0, Format::Decimal),
        "G" => (9, 0, Format::Decimal),
        "T" => (12, 0, Format::Decimal),
        "P" => (15, 0, Format::Decimal),
        "E" => (18, 0, Format::Decimal),
        "Ki" => (0, 1, Format::Binary),
        "Mi" => (0, 2, Format::Binary),
        "Gi" => (0, 3, Format::Binary),
        "Ti" => (0, 4, Format::Binary),
        "Pi" => (0, 5, Format::Binary),
        "Ei" => (0, 6, Format::Binary),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Go keeps the low 32 bits only: `1e4294967296` is 1.
            (i64::from(exponent as i32), 0, Format::Exponent)
        }
    })
}

/// Fast path for an integer with a suffix, far below every limit. `None` for all other texts.
fn whole_amount(digits: &str, ten: i64, kibi: u8) -> Option<i128> {
    let units: u64 = (digits.len() <= 18).then(|| digits.parse().ok())??;
    let scale = 10_i128.pow(u32::try_from(9 + ten).ok().filter(|scale| *scale <= 18)?);
    // Below 2^63 units, the cap of binary quantities.
    let binary = units.checked_mul(1 << (10 * u32::from(kibi)))?;
    let units = i64::try_from(binary).ok()?;
    Some(i128::from(units) * scale)
}

/// Multiplies a decimal digit string (most significant first) by 1024.
fn times_1024(digits: &mut Vec<u8>) {
    let mut carry = 0_u32;
    for digit in digits.iter_mut().rev() {
        carry += u32::from(*digit) * 1024;
        *digit = u8::try_from(carry % 10).unwrap_or_default();
        carry /= 10;
    }
    while carry > 0 {
        digits.insert(0, u8::try_from(carry % 10).unwrap_or_default());
        carry /= 10;
    }
}

/// `digits * 10^shift`, a remaining fraction rounded up, capped at `i128::MAX`.
fn shifted(digits: &[u8], shift: i64) -> i128 {
    let start = digits.iter().position(|d| *d != 0).unwrap_or(digits.len());
    let digits = &digits[start..];
    if digits.is_empty() {
        return 0;
    }
    let cut = usize::try_from(shift.min(0).unsigned_abs()).unwrap_or(usize::MAX);
    let kept = digits.len().saturating_sub(cut);
    let push = |sum: i128, digit: u8| sum.checked_mul(10)?.checked_add(i128::from(digit));
    let mut amount = digits[..kept].iter().try_fold(0, |sum, d| push(sum, *d));
    if digits[kept..].iter().any(|d| *d != 0) {
        amount = amount.and_then(|a| a.checked_add(1));
    }
    for _ in 0..shift.clamp(0, 40) {
        amount = amount.and_then(|a| push(a, 0));
    }
    amount.unwrap_or(i128::MAX)
}

/// Division with the remainder rounded away from zero.
fn divide_up(amount: i128, by: i128) -> i128 {
    amount / by + (amount % by).signum()
}

/// Whether a resource is counted in bytes.
fn is_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "storage" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// Formats a quantity in thousandths as in a manifest. Large numbers of bytes are rounded down to whole KiB
/// or MiB.
pub fn amount(resource: &str, milli: i128) -> String {
    if !is_bytes(resource) {
        return if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") };
    }
    let whole = milli.div_euclid(1000);
    for (unit, power) in [("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        if whole != 0 && whole % (1 << power) == 0 {
            return format!("{}{unit}", whole >> power);
        }
    }
    match whole.abs() {
        ..=0xf_ffff => whole.to_string(),
        0x10_0000..=0x3fff_ffff => format!("{}Ki", whole >> 10),
        _ => format!("{}Mi", whole >> 20),
    }
}

/// Like [`amount`], rounded up to a whole number, or to whole GiB: enough for a limit that has to be written.
pub fn amount_rounded_up(resource: &str, milli: i128) -> String {
    let unit = if is_bytes(resource) { 1000 << 30 } else { 1000 };
    amount(resource, (milli + unit - 1).div_euclid(unit) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn accepted_values() {
        let unit = NANO;
        for (text, nano) in [
            ("0", 0),
            ("500", 500 * unit),
            ("+5", 5 * unit),
            ("-5", -5 * unit),
            ("007", 7 * unit),
            ("0.5", unit / 2),
            (".5", unit / 2),
            ("1.", unit),
            ("1.G", 1_000_000_000 * unit),
            ("100m", unit / 10),
            ("7n", 7),
            ("7u", 7000),
            ("1k", 1000 * unit),
            ("1M", 1_000_000 * unit),
            ("1T", 1_000_000_000_000 * unit),
            ("1P", 1_000_000_000_000_000 * unit),
            ("1E", 1_000_000_000_000_000_000 * unit),
            ("1E3", 1000 * unit),
            ("1e3", 1000 * unit),
            ("1e+3", 1000 * unit),
            ("1e-3", unit / 1000),
            ("1.5e3", 1500 * unit),
            ("2000Gi", 2000 * (1 << 30) * unit),
            ("1.5Ki", 1536 * unit),
            ("0.1Ki", 102_400_000_000),
            ("1Ei", (1 << 60) * unit),
            ("100Ei", BINARY_CAP),
            ("0.1n", 1),
            ("-0.1n", -1),
            ("1e-100", 1),
            ("1e4294967296", unit),
            ("1e30", i128::MAX),
            ("1e2000000000", i128::MAX),
        ] {
            assert_eq!(q(text).nano(), nano, "{text}");
        }
    }

    #[test]
    fn refused() {
        assert_eq!(Quantity::parse(""), Err(QuantityError::Empty));
        for text in ["Gi", ".", "-", "+", "m", "e3", " 1", "--1", "abc", "-Gi"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::NoDigits), "{text}");
        }
        for (text, suffix) in [
            ("1 Gi", " Gi"),
            ("1 ", " "),
            ("1K", "K"),
            ("1g", "g"),
            ("1GB", "GB"),
            ("1gi", "gi"),
            ("1i", "i"),
            ("1mi", "mi"),
            ("1e", "e"),
            ("1e+", "e+"),
            ("1e1.5", "e1.5"),
            ("1.1.1", ".1"),
            ("1_000", "_000"),
            ("1Gi1", "Gi1"),
            ("1k5", "k5"),
            ("1é", "é"),
            ("0x10", "x10"),
            ("1e99999999999999999999", "e99999999999999999999"),
        ] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Suffix(suffix.to_owned())), "{text}");
        }
    }

    #[test]
    fn blanks_that_the_decoder_cuts_off() {
        for text in [" 1", "1 ", "  1  ", "\u{a0}1\u{3000}", "1"] {
            assert_eq!(Quantity::decode(text), Ok(Quantity::from_integer(1)), "{text:?}");
        }
        assert_eq!(Quantity::decode(" "), Err(QuantityError::Empty));
        assert_eq!(Quantity::decode("1 Gi"), Err(QuantityError::Suffix(" Gi".to_owned())));
        for text in ["\t1", "1\n", "1\r", "1\u{2028}"] {
            assert!(Quantity::decode(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn rounding_order_and_display() {
        assert_eq!(q("1.1").value(), 2);
        assert_eq!(q("-1.1").value(), -2);
        assert_eq!(q("0.0001").milli(), 1);
        assert_eq!(q("1500u").milli(), 2);
        assert_eq!(q("1Gi"), q("1024Mi"));
        assert!(q("1Gi") > q("1G"));
        assert!(q("500m").is_zero() || !q("500m").is_whole());
        for (text, shown) in [
            ("0Gi", "0"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1023", "1023"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1.5e3", "1500"),
            ("1e-3", "1e-3"),
            ("+5", "5"),
            ("-2048Ki", "-2Mi"),
            ("1500.5Ki", "1536512"),
            ("100Ei", "9223372036854775807"),
            ("2000Gi", "2000Gi"),
        ] {
            assert_eq!(q(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn long_input_is_linear_enough() {
        let text = format!("0.{}1Gi", "0".repeat(20_000));
        assert_eq!(q(&text).nano(), 1);
        assert_eq!(q(&"9".repeat(20_000)).nano(), i128::MAX);
    }

    #[test]
    fn amounts_are_written_as_in_manifests() {
        assert_eq!(amount("cpu", 1500), "1500m");
        assert_eq!(amount("cpu", 4000), "4");
        assert_eq!(amount("nvidia.com/gpu", 8000), "8");
        assert_eq!(amount("memory", (16 << 30) * 1000), "16Gi");
        assert_eq!(amount("memory", (6903 << 20) * 1000), "6903Mi");
        assert_eq!(amount("memory", 1_000_000_000), "1000000");
        assert_eq!(amount("memory", 6_945_924_710_000), "6624Mi");
        assert_eq!(amount("memory", 694_592_471_000), "678312Ki");
        assert_eq!(amount("memory", 0), "0");
        assert_eq!(amount("storage", (5 << 30) * 1000), "5Gi");
        assert_eq!(amount_rounded_up("memory", (6903 << 20) * 1000), "7Gi");
        assert_eq!(amount_rounded_up("cpu", 1500), "2");
    }
}
