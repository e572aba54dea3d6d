//! Checks the formula of scaling modifiers for errors that KEDA's admission webhook certainly rejects.
//!
//! KEDA compiles the formula (in the expression language `expr`) with one number for each named trigger that
//! is not a resource trigger, and converts the result to a number. It rejects names that no such trigger has,
//! boolean results, and text that does not parse. The language is larger than the part that is parsed here;
//! anything else is accepted.

use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormulaError {
    /// The name is neither a trigger nor a built-in.
    UnknownName(String),
    /// The result is a boolean.
    Boolean,
    /// The result is a string that is not a number.
    Text,
    /// The condition of `? :` is a number.
    Condition,
    Syntax,
}

/// Why KEDA rejects `formula`; `names` are the named triggers that are not resource triggers. `None` if KEDA
/// accepts it, or if this is not known.
pub(crate) fn formula_error(formula: &str, names: &BTreeSet<&str>) -> Option<FormulaError> {
    let tokens = tokenize(formula)?;
    let mut parser = Parser {
        tokens: &tokens,
        position: 0,
        names,
        bound: Vec::new(),
        unknown: None,
        condition: false,
        depth: 0,
    };
    match parser.program() {
        Ok(_) if parser.unknown.is_some() => parser.unknown.map(FormulaError::UnknownName),
        Ok(_) if parser.condition => Some(FormulaError::Condition),
        Ok(ExprType::Bool) => Some(FormulaError::Boolean),
        Ok(ExprType::Text) => Some(FormulaError::Text),
        Ok(_) => None,
        Err(ParseFailure::Syntax) => Some(FormulaError::Syntax),
        Err(ParseFailure::Unsupported) => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExprType {
    Number,
    Bool,
    /// A string that Go does not parse as a number.
    Text,
    Other,
}

enum ParseFailure {
    Syntax,
    /// A part of the language that is not parsed here.
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Number,
    Text(&'a str),
    Name(&'a str),
    Punctuation(&'a str),
}

const PUNCTUATION: &[&str] = &[
    "**", "==", "!=", "<=", ">=", "&&", "||", "??", "+", "-", "*", "/", "%", "^", "<", ">", "!", "?", ":",
    "(", ")", ",", ";", "=",
];

/// The tokens. `None` if the text contains something that is not parsed here.
fn tokenize(text: &str) -> Option<Vec<Token<'_>>> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
            let mut end = end.unwrap_or(rest.len());
            // An exponent may have a sign.
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
            // Escape sequences are not supported.
            let end = rest[1..].find(first)?;
            if rest[1..=end].contains('\\') {
                return None;
            }
            out.push(Token::Text(&rest[1..=end]));
            end + 2
        } else {
            let sign = PUNCTUATION.iter().find(|s| rest.starts_with(**s))?;
            out.push(Token::Punctuation(sign));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Some(out)
}

const MAX_DEPTH: usize = 64;

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    position: usize,
    names: &'t BTreeSet<&'t str>,
    bound: Vec<&'a str>,
    unknown: Option<String>,
    condition: bool,
    depth: usize,
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.position)
    }

    fn is_at(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Punctuation(s) | Token::Name(s)) if *s == sign)
    }

    fn accept(&mut self, sign: &str) -> bool {
        let found = self.is_at(sign);
        self.position += usize::from(found);
        found
    }

    fn program(&mut self) -> Result<ExprType, ParseFailure> {
        if self.accept("let") {
            let Some(Token::Name(name)) = self.peek().cloned() else {
                return Err(ParseFailure::Unsupported);
            };
            self.position += 1;
            if !self.accept("=") {
                return Err(ParseFailure::Unsupported);
            }
            self.ternary()?;
            self.bound.push(name);
            if !self.accept(";") {
                return Err(ParseFailure::Unsupported);
            }
            return self.program();
        }
        let kind = self.ternary()?;
        if self.position < self.tokens.len() {
            // Two values follow each other, or a bracket has no counterpart.
            return Err(match self.peek() {
                Some(Token::Number | Token::Text(_) | Token::Punctuation(")" | ",")) => ParseFailure::Syntax,
                _ => ParseFailure::Unsupported,
            });
        }
        Ok(kind)
    }

    fn ternary(&mut self) -> Result<ExprType, ParseFailure> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseFailure::Unsupported);
        }
        let mut kind = self.binary(0)?;
        if self.accept("?") {
            self.condition |= kind == ExprType::Number;
            let yes = self.ternary()?;
            if !self.accept(":") {
                return Err(ParseFailure::Unsupported);
            }
            let no = self.ternary()?;
            kind = if yes == no { yes } else { ExprType::Other };
        }
        self.depth -= 1;
        Ok(kind)
    }

    /// Parses binary operators, starting with the lowest precedence. All levels are treated as
    /// left-associative, which is enough to determine types.
    fn binary(&mut self, level: usize) -> Result<ExprType, ParseFailure> {
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
        while let Some(sign) = signs.iter().find(|s| self.is_at(s)) {
            self.position += 1;
            let right = self.binary(level + 1)?;
            kind = match *sign {
                "||" | "or" | "&&" | "and" | "==" | "!=" | "<" | ">" | "<=" | ">=" => ExprType::Bool,
                "??" => ExprType::Other,
                _ if kind == ExprType::Number && right == ExprType::Number => ExprType::Number,
                _ => ExprType::Other,
            };
        }
        if level == 0
            && let Some(Token::Name(name)) = self.peek()
        {
            const OPERATORS: &[&str] = &["in", "not", "matches", "contains", "startsWith", "endsWith"];
            return Err(if OPERATORS.contains(name) {
                ParseFailure::Unsupported
            } else {
                ParseFailure::Syntax
            });
        }
        Ok(kind)
    }

    fn unary(&mut self) -> Result<ExprType, ParseFailure> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseFailure::Unsupported);
        }
        let kind = if self.accept("-") || self.accept("+") {
            self.unary()
        } else if self.accept("!") || self.accept("not") {
            self.unary().map(|_| ExprType::Bool)
        } else {
            self.value()
        };
        self.depth -= 1;
        kind
    }

    fn value(&mut self) -> Result<ExprType, ParseFailure> {
        let Some(token) = self.peek().cloned() else {
            return Err(ParseFailure::Syntax);
        };
        self.position += 1;
        match token {
            Token::Number => Ok(ExprType::Number),
            // A string that may be a number in another notation is not checked.
            Token::Text(text) if text.starts_with(|c: char| c.is_alphabetic()) => {
                let word = text.to_ascii_lowercase();
                let number = ["inf", "infinity", "nan"].contains(&word.as_str());
                Ok(if number { ExprType::Other } else { ExprType::Text })
            }
            Token::Text(_) => Ok(ExprType::Other),
            Token::Punctuation("(") => {
                let kind = self.ternary()?;
                if self.accept(")") {
                    return Ok(kind);
                }
                Err(match self.peek() {
                    None => ParseFailure::Syntax,
                    Some(_) => ParseFailure::Unsupported,
                })
            }
            Token::Punctuation(")" | "*" | "/" | ",") => Err(ParseFailure::Syntax),
            Token::Punctuation(_) => Err(ParseFailure::Unsupported),
            Token::Name(name) if self.is_at("(") => {
                self.position += 1;
                while !self.accept(")") {
                    self.ternary()?;
                    if !self.accept(",") && !self.is_at(")") {
                        return Err(ParseFailure::Unsupported);
                    }
                }
                Ok(match name {
                    "abs" | "ceil" | "floor" | "round" | "float" | "int" => ExprType::Number,
                    _ => ExprType::Other,
                })
            }
            Token::Name("true" | "false") => Ok(ExprType::Bool),
            Token::Name("nil") => Ok(ExprType::Other),
            // `$env` contains all values.
            Token::Name(name) if name.starts_with('$') => Err(ParseFailure::Unsupported),
            Token::Name(name) => {
                if self.bound.contains(&name) {
                    return Ok(ExprType::Other);
                }
                if !self.names.contains(name) && self.unknown.is_none() {
                    self.unknown = Some(name.to_owned());
                }
                Ok(ExprType::Number)
            }
        }
    }
}
