//! Files of Terraform: the versions of EKS, of the charts of `helm_release` resources and of the add-ons of EKS Blueprints, and what
//! the files install.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use hcl_edit::Span;
use hcl_edit::expr::{
    Conditional, Expression, ForExpr, FuncCall, Object, ObjectKey, ObjectValue, Traversal, TraversalOperator,
};
use hcl_edit::parser::parse_body;
use hcl_edit::structure::{Attribute, Block, BlockLabel, Body};
use hcl_edit::template::Element;
use hcl_edit::visit::{self, Visit};

use super::{Fact, charts_of_template, installed_by, product_of_chart};
use crate::platform::Product;

/// Maximum size in bytes of a file: the time that the parser takes grows with the square of the keys of an object. Larger files are
/// data that programs wrote.
const MAX_BYTES: usize = 256 << 10;
/// The resources that install something into a cluster, by the beginnings of their types.
const INSTALLING: [&str; 6] =
    ["helm_release", "aws_eks_addon", "kubectl_manifest", "kubernetes_", "kustomization_resource", "argocd_"];

/// What is read of a file of Terraform.
#[derive(Clone, Debug, Default)]
pub struct TerraformFile {
    /// The locals, the defaults of variables, and what a file of variables assigns to them, by references: `local.a`, `var.b`.
    values: Vec<(String, Value)>,
    /// The modules in other folders that the file calls: their paths, relative to its own, and the arguments that it passes.
    called: Vec<(String, BTreeSet<String>)>,
    pins: Vec<Pin>,
    installs: Vec<(Fact, u32)>,
}

/// What is known of the value of an expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Text(String),
    /// The value of a variable or a local: `var.a`, `local.a`.
    Reference(String),
    Unknown,
}

/// The version of a product, or of a chart, which may be no product's.
#[derive(Clone, Debug)]
struct Pin {
    of: Result<Product, Value>,
    version: Value,
    /// The line, counted from 1.
    line: u32,
}

impl TerraformFile {
    /// Reads a file of a module or of values of variables. One that does not parse shows nothing.
    pub fn read(text: &str) -> TerraformFile {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let body = Some(text).filter(|text| text.len() <= MAX_BYTES).and_then(parse);
        let mut reader = Reader { text, is_certain: true, file: TerraformFile::default() };
        if let Some(body) = body {
            for assigned in body.attributes() {
                reader.declare("var", assigned);
            }
            reader.visit_body(&body);
        }
        reader.file
    }

    /// The modules in other folders that the file calls: their paths, relative to its own, and the arguments that it passes.
    pub fn called_modules(&self) -> &[(String, BTreeSet<String>)] {
        &self.called
    }

    /// What the file installs, each with its line, counted from 1: charts, and the labels of modules, of add-ons and of the resources
    /// that install something.
    pub fn installs(&self) -> &[(Fact, u32)] {
        &self.installs
    }

    /// The versions in the file, each with its line, counted from 1, where they are literals or have one value.
    pub fn pins<'v>(&'v self, values: &'v TerraformValues) -> Vec<(Product, &'v str, u32)> {
        let pins = self.pins.iter().filter_map(|pin| {
            let product = match &pin.of {
                Ok(product) => *product,
                Err(chart) => product_of_chart(values.text(chart, MAX_REFERENCES)?)?,
            };
            Some((product, values.text(&pin.version, MAX_REFERENCES)?, pin.line))
        });
        pins.collect()
    }
}

/// Maximum number of keys that stand twice in an object.
const MAX_KEYS_TWICE: u8 = 20;

/// Parses a file. Terraform takes the last of equal keys of an object, and the parser none: others get another first letter, which
/// changes no place.
fn parse(text: &str) -> Option<Body> {
    let mut text = text.to_owned();
    for letter in (b'A'..=b'Z').take(MAX_KEYS_TWICE.into()) {
        let error = match parse_body(&text) {
            Ok(body) => return Some(body),
            Err(error) => error,
        };
        let at = error.location().offset();
        let key = text.get(at..).filter(|_| error.message().contains("redefined object key"))?;
        let first = at + usize::from(key.starts_with('"'));
        let is_letter = text.as_bytes().get(first)?.is_ascii_alphanumeric();
        text.replace_range(first..=first, is_letter.then(|| char::from(letter))?.encode_utf8(&mut [0; 4]));
    }
    None
}

/// The certain values of the variables and locals of a module: what Terraform would take for them, however it is run.
#[derive(Clone, Debug, Default)]
pub struct TerraformValues {
    /// The values of locals and the defaults of variables, by their references.
    defaults: BTreeMap<String, Value>,
    /// The values in files of variables that Terraform reads by itself, in place of the default.
    own: BTreeMap<String, BTreeSet<Value>>,
    /// The values in files that may be named on the command line, which any module may be run with.
    possible: Arc<BTreeMap<String, BTreeSet<Value>>>,
}

/// Maximum number of references from one to the next.
const MAX_REFERENCES: usize = 4;

impl TerraformValues {
    /// Adds the variables and locals that a file of the module declares.
    pub fn declare(&mut self, file: &TerraformFile) {
        self.defaults.extend(file.values.iter().cloned());
    }

    /// Adds a file of values of variables. `is_own`: Terraform reads it by itself for this module.
    pub fn set(&mut self, file: &TerraformFile, is_own: bool) {
        let values = if is_own { &mut self.own } else { Arc::make_mut(&mut self.possible) };
        for (name, value) in &file.values {
            values.entry(name.clone()).or_default().insert(value.clone());
        }
    }

    /// Takes over the values that may be named on the command line.
    pub fn share_possible(&mut self, other: &TerraformValues) {
        self.possible = Arc::clone(&other.possible);
    }

    /// Forgets the variables that other modules pass to this one as arguments, and the files of variables, which are read where
    /// Terraform is run. The defaults of the others hold.
    pub fn forget_arguments(&mut self, arguments: &BTreeSet<String>) {
        let is_passed =
            |reference: &str| reference.strip_prefix("var.").is_some_and(|name| arguments.contains(name));
        self.defaults.retain(|reference, _| !is_passed(reference));
        self.own.clear();
        self.possible = Arc::default();
    }

    /// The text that a value is, or that it refers to if that is one text.
    fn text<'v>(&'v self, value: &'v Value, references: usize) -> Option<&'v str> {
        let reference = match value {
            Value::Text(text) => return Some(text),
            Value::Reference(reference) if references > 0 => reference,
            _ => return None,
        };
        let own = self.own.get(reference);
        let default = self.defaults.get(reference).filter(|_| own.is_none());
        let possible = self.possible.get(reference);
        let all = default.into_iter().chain(own.into_iter().chain(possible).flatten());
        let mut texts = all.map(|value| self.text(value, references - 1));
        let first = texts.next()??;
        texts.all(|text| text == Some(first)).then_some(first)
    }
}

impl Value {
    fn of(expression: &Expression) -> Value {
        match expression {
            Expression::String(text) => Value::Text(text.to_string()),
            Expression::Parenthesis(inner) => Value::of(inner.inner()),
            // `"${var.a}"` is `var.a`.
            Expression::StringTemplate(template) => match template.as_single_element() {
                Some(Element::Interpolation(inner)) => Value::of(&inner.expr),
                _ => Value::Unknown,
            },
            Expression::Traversal(traversal) => reference(traversal).map_or(Value::Unknown, Value::Reference),
            _ => Value::Unknown,
        }
    }
}

/// The variable or the local that a traversal is, and not a part of it.
fn reference(traversal: &Traversal) -> Option<String> {
    let root = traversal.expr.as_variable()?.as_str();
    let [operator] = traversal.operators.as_slice() else { return None };
    let TraversalOperator::GetAttr(name) = operator.value() else { return None };
    matches!(root, "var" | "local").then(|| format!("{root}.{}", name.as_str()))
}

/// A walk through a file.
struct Reader<'t> {
    text: &'t str,
    /// Whether the expression is taken as it is, and not a choice among several or an argument.
    is_certain: bool,
    file: TerraformFile,
}

impl Reader<'_> {
    fn line(&self, node: &impl Span) -> u32 {
        let start = node.span().map_or(0, |span| span.start);
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..start]).count() as u32 + 1
    }

    fn declare(&mut self, root: &str, declared: &Attribute) {
        let value = Value::of(&declared.value);
        self.file.values.push((format!("{root}.{}", declared.key.as_str()), value));
    }

    fn pin(&mut self, of: Result<Product, Value>, version: &Expression) {
        if self.is_certain {
            self.file.pins.push(Pin { of, version: Value::of(version), line: self.line(version) });
        }
    }

    fn install(&mut self, name: &str, node: &impl Span) {
        if let Some(fact) = Fact::installs(&name.replace('_', "-")) {
            self.file.installs.push((fact, self.line(node)));
        }
    }

    /// An attribute, or an item of an object.
    fn item(&mut self, name: &str, value: &Expression) {
        if matches!(name, "cluster_version" | "kubernetes_version") {
            self.pin(Ok(Product::Kubernetes), value);
        }
        let version = value.as_object().and_then(|addon| item_of(addon, "chart_version"));
        if let Some((product, version)) = product_of_chart(name).zip(version) {
            self.pin(Ok(product), version);
        }
        let written = value.span().and_then(|span| self.text.get(span)).unwrap_or_default();
        if let Some(installed) = installed_by(name, written) {
            self.install(installed, value);
        }
    }

    /// Visits what holds only if something else does.
    fn uncertain(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = mem::replace(&mut self.is_certain, false);
        visit(self);
        self.is_certain = before;
    }
}

impl Visit for Reader<'_> {
    fn visit_block(&mut self, block: &Block) {
        let mut labels = block.labels.iter().map(BlockLabel::as_str);
        let attribute = |name: &str| block.body.get_attribute(name).map(|attribute| &attribute.value);
        match (block.ident.as_str(), labels.next(), labels.next()) {
            ("locals", ..) => block.body.attributes().for_each(|local| self.declare("local", local)),
            ("variable", Some(name), _) => {
                if let Some(default) = attribute("default") {
                    self.file.values.push((format!("var.{name}"), Value::of(default)));
                }
                // The parts of a default hold where nothing replaces them.
                return self.uncertain(|reader| visit::visit_block(reader, block));
            }
            ("module", Some(name), _) => {
                let source = attribute("source").and_then(Expression::as_str);
                if let Some(path) = source.filter(|path| path.starts_with('.')) {
                    let arguments = block.body.attributes().map(|argument| argument.key.as_str().to_owned());
                    self.file.called.push((path.to_owned(), arguments.collect()));
                }
                self.install(name, block);
            }
            ("resource", Some(kind), Some(name)) => {
                if kind == "aws_eks_cluster"
                    && let Some(version) = attribute("version")
                {
                    self.pin(Ok(Product::Kubernetes), version);
                }
                if kind == "helm_release"
                    && let Some((chart, version)) = attribute("chart").zip(attribute("version"))
                {
                    self.pin(Err(Value::of(chart)), version);
                }
                if INSTALLING.iter().any(|start| kind.starts_with(start)) {
                    self.install(name, block);
                }
            }
            _ => {}
        }
        visit::visit_block(self, block);
    }

    fn visit_attr(&mut self, attribute: &Attribute) {
        self.item(attribute.key.as_str(), &attribute.value);
        visit::visit_attr(self, attribute);
    }

    fn visit_object_item(&mut self, key: &ObjectKey, value: &ObjectValue) {
        if let Some(name) = name_of(key) {
            self.item(name, value.expr());
        }
        visit::visit_object_item(self, key, value);
    }

    /// A text of several lines is often a manifest.
    fn visit_expr(&mut self, expression: &Expression) {
        if let (Expression::HeredocTemplate(_), Some(span)) = (expression, expression.span()) {
            let first = self.line(expression) - 1;
            let charts = charts_of_template(&self.text[span]);
            self.file.installs.extend(charts.into_iter().map(|(fact, line)| (fact, first + line)));
        }
        visit::visit_expr(self, expression);
    }

    fn visit_conditional(&mut self, choice: &Conditional) {
        self.uncertain(|reader| visit::visit_conditional(reader, choice));
    }

    fn visit_func_call(&mut self, call: &FuncCall) {
        self.uncertain(|reader| visit::visit_func_call(reader, call));
    }

    fn visit_for_expr(&mut self, each: &ForExpr) {
        self.uncertain(|reader| visit::visit_for_expr(reader, each));
    }
}

fn name_of(key: &ObjectKey) -> Option<&str> {
    match key {
        ObjectKey::Ident(name) => Some(name.as_str()),
        ObjectKey::Expression(name) => name.as_str(),
    }
}

fn item_of<'o>(object: &'o Object, name: &str) -> Option<&'o Expression> {
    object.iter().find(|(key, _)| name_of(key) == Some(name)).map(|(_, value)| value.expr())
}
