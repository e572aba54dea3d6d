//! The formula of scaling modifiers, as far as KEDA's admission certainly refuses it.
//!
//! KEDA compiles the formula (the expression language `expr`) with one number for each trigger
//! that has a name, resource triggers left out, and turns the result into a number. A name that no
//! such trigger has, a result that is a boolean, and text that does not parse are refused. The
//! language is larger than what is read here: on anything else there is no opinion.

use std::collections::BTreeSet;

/// Why a formula is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A name that is neither a trigger's nor the language's.
    UnknownName(String),
    /// The result is a boolean.
    Boolean,
    /// The result is a text that is no number.
    Text,
    /// The condition of `? :` is a number.
    Condition,
    /// It does not parse.
    Syntax,
}

/// Why KEDA refuses `formula`, `names` being the named triggers that are no resource metrics;
/// `None` where it takes it, or where that is not known.
#[must_use]
pub fn refusal(formula: &str, names: &BTreeSet<&str>) -> Option<Refusal> {
    let tokens = tokens(formula)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        names,
        bound: Vec::new(),
        unknown: None,
        condition: false,
        depth: 0,
    };
    match parser.program() {
        Ok(_) if parser.unknown.is_some() => parser.unknown.map(Refusal::UnknownName),
        Ok(_) if parser.condition => Some(Refusal::Condition),
        Ok(Kind::Bool) => Some(Refusal::Boolean),
        Ok(Kind::Text) => Some(Refusal::Text),
        Ok(_) => None,
        Err(Stop::Syntax) => Some(Refusal::Syntax),
        Err(Stop::Beyond) => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Bool,
    /// A text that Go reads as no number.
    Text,
    Other,
}

enum Stop {
    /// It cannot be right.
    Syntax,
    /// It is more of the language than is read here.
    Beyond,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Number,
    Text(&'a str),
    Name(&'a str),
    Sign(&'a str),
}

const SIGNS: &[&str] = &[
    "**", "==", "!=", "<=", ">=", "&&", "||", "??", "+", "-", "*", "/", "%", "^", "<", ">", "!", "?", ":",
    "(", ")", ",", ";", "=",
];

/// The words; `None` where there is something that is not read here.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
            let mut end = end.unwrap_or(rest.len());
            // An exponent may carry a sign.
            if rest[..end].ends_with(['e', 'E']) && !rest.starts_with("0x") {
                let tail = rest[end..].trim_start_matches(['+', '-']);
                let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
                end = rest.len() - tail.len() + digits;
            }
            out.push(Token::Number);
            end
        } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
            let end = end.unwrap_or(rest.len());
            out.push(Token::Name(&rest[..end]));
            end
        } else if first == '"' || first == '\'' {
            // Escapes are not read: text with one is beyond.
            let end = rest[1..].find(first)?;
            if rest[1..=end].contains('\\') {
                return None;
            }
            out.push(Token::Text(&rest[1..=end]));
            end + 2
        } else {
            let sign = SIGNS.iter().find(|s| rest.starts_with(**s))?;
            out.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Some(out)
}

const DEEPEST: usize = 64;

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    names: &'t BTreeSet<&'t str>,
    bound: Vec<&'a str>,
    unknown: Option<String>,
    condition: bool,
    depth: usize,
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(s) | Token::Name(s)) if *s == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.at += usize::from(found);
        found
    }

    fn program(&mut self) -> Result<Kind, Stop> {
        if self.take("let") {
            let Some(Token::Name(name)) = self.peek().cloned() else {
                return Err(Stop::Beyond);
            };
            self.at += 1;
            if !self.take("=") {
                return Err(Stop::Beyond);
            }
            self.ternary()?;
            self.bound.push(name);
            if !self.take(";") {
                return Err(Stop::Beyond);
            }
            return self.program();
        }
        let kind = self.ternary()?;
        if self.at < self.tokens.len() {
            // Two values side by side, or a bracket too many.
            return Err(match self.peek() {
                Some(Token::Number | Token::Text(_) | Token::Sign(")" | ",")) => Stop::Syntax,
                _ => Stop::Beyond,
            });
        }
        Ok(kind)
    }

    fn ternary(&mut self) -> Result<Kind, Stop> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Stop::Beyond);
        }
        let mut kind = self.binary(0)?;
        if self.take("?") {
            self.condition |= kind == Kind::Number;
            let yes = self.ternary()?;
            if !self.take(":") {
                return Err(Stop::Beyond);
            }
            let no = self.ternary()?;
            kind = if yes == no { yes } else { Kind::Other };
        }
        self.depth -= 1;
        Ok(kind)
    }

    /// Operators from the loosest; each level is left-associative, which is enough for kinds.
    fn binary(&mut self, level: usize) -> Result<Kind, Stop> {
        const LEVELS: &[&[&str]] = &[
            &["||", "or"],
            &["&&", "and"],
            &["==", "!=", "<", ">", "<=", ">="],
            &["+", "-"],
            &["*", "/", "%"],
            &["**", "^"],
            &["??"],
        ];
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut kind = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().find(|s| self.is(s)) {
            self.at += 1;
            let right = self.binary(level + 1)?;
            kind = match *sign {
                "||" | "or" | "&&" | "and" | "==" | "!=" | "<" | ">" | "<=" | ">=" => Kind::Bool,
                "??" => Kind::Other,
                _ if kind == Kind::Number && right == Kind::Number => Kind::Number,
                _ => Kind::Other,
            };
        }
        if level == 0
            && let Some(Token::Name(name)) = self.peek()
        {
            const OPERATORS: &[&str] = &["in", "not", "matches", "contains", "startsWith", "endsWith"];
            return Err(if OPERATORS.contains(name) { Stop::Beyond } else { Stop::Syntax });
        }
        Ok(kind)
    }

    fn unary(&mut self) -> Result<Kind, Stop> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Stop::Beyond);
        }
        let kind = if self.take("-") || self.take("+") {
            self.unary()
        } else if self.take("!") || self.take("not") {
            self.unary().map(|_| Kind::Bool)
        } else {
            self.value()
        };
        self.depth -= 1;
        kind
    }

    fn value(&mut self) -> Result<Kind, Stop> {
        let Some(token) = self.peek().cloned() else {
            return Err(Stop::Syntax);
        };
        self.at += 1;
        match token {
            Token::Number => Ok(Kind::Number),
            // What may be a number in another spelling is not judged.
            Token::Text(text) if text.starts_with(|c: char| c.is_alphabetic()) => {
                let word = text.to_ascii_lowercase();
                let number = ["inf", "infinity", "nan"].contains(&word.as_str());
                Ok(if number { Kind::Other } else { Kind::Text })
            }
            Token::Text(_) => Ok(Kind::Other),
            Token::Sign("(") => {
                let kind = self.ternary()?;
                if self.take(")") {
                    return Ok(kind);
                }
                Err(match self.peek() {
                    None => Stop::Syntax,
                    Some(_) => Stop::Beyond,
                })
            }
            Token::Sign(")" | "*" | "/" | ",") => Err(Stop::Syntax),
            Token::Sign(_) => Err(Stop::Beyond),
            Token::Name(name) if self.is("(") => {
                self.at += 1;
                while !self.take(")") {
                    self.ternary()?;
                    if !self.take(",") && !self.is(")") {
                        return Err(Stop::Beyond);
                    }
                }
                Ok(match name {
                    "abs" | "ceil" | "floor" | "round" | "float" | "int" => Kind::Number,
                    _ => Kind::Other,
                })
            }
            Token::Name("true" | "false") => Ok(Kind::Bool),
            Token::Name("nil") => Ok(Kind::Other),
            // `$env` holds every value.
            Token::Name(name) if name.starts_with('$') => Err(Stop::Beyond),
            Token::Name(name) => {
                if self.bound.contains(&name) {
                    return Ok(Kind::Other);
                }
                if !self.names.contains(name) && self.unknown.is_none() {
                    self.unknown = Some(name.to_owned());
                }
                Ok(Kind::Number)
            }
        }
    }
}
