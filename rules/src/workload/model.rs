//! The weights of a language model that a server loads: the number of parameters in its name, and the number of bytes
//! of each.

use crate::tree::node::Node;
use crate::workload::command::OptionValue;
use crate::workload::launcher::Launch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Number of parameters in millions.
    pub(crate) parameters: u64,
    pub(crate) precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// float32.
    Single,
    /// bfloat16 or float16.
    Half,
    /// fp8, int8 and similar types.
    EightBits,
    /// AWQ, GPTQ, int4, fp4 and similar types, including their scales.
    FourBits,
}

impl Precision {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Precision::Single => "float32",
            Precision::Half => "bf16",
            Precision::EightBits => "8 bits",
            Precision::FourBits => "4 bits",
        }
    }

    /// Size of a parameter in thousandths of a byte.
    fn size(self) -> u64 {
        match self {
            Precision::Single => 4000,
            Precision::Half => 2000,
            Precision::EightBits => 1000,
            Precision::FourBits => 600,
        }
    }
}

impl Weights {
    /// The memory for the weights in MB (10^6 bytes).
    pub(crate) fn megabytes(&self) -> u64 {
        self.parameters * self.precision.size() / 1000
    }

    /// The number of parameters as in names of models, such as `70B`.
    pub(crate) fn parameters_text(&self) -> String {
        match (self.parameters / 1000, self.parameters % 1000 / 100) {
            (whole, 0) => format!("{whole}B"),
            (whole, tenths) => format!("{whole}.{tenths}B"),
        }
    }
}

/// Options that store a part of the weights outside the memory of the GPUs, change the model, or distribute it in ways
/// that the other options do not show.
const ELSEWHERE: [&str; 12] = [
    "cpu-offload-gb",
    "offload-backend",
    "offload-group-size",
    "n-gpu-layers",
    "device",
    "hf-overrides",
    "json-model-override-args",
    "torchao-config",
    "enable-expert-parallel",
    "prefill-context-parallel-size",
    "worker-cls",
    "model-loader-extra-config",
];

/// The model that a server loads, with the item that names it. `None` if the name does not contain its size, or the
/// weights may need less memory.
pub(crate) fn weights_of<'a>(launch: &Launch<'a>, container: &Node<'a>) -> Option<(Weights, Node<'a>)> {
    if launch.may_have_more_options() || launch.has(&ELSEWHERE) {
        return None;
    }
    let (name, node) = launch.model(container)?;
    let parameters = parameters(&name)?;
    let is_tgi = launch.program.name() == "TGI";
    let setting = launch.setting(container, if is_tgi { &["quantize"] } else { &["quantization", "q"] });
    let loader = launch.option(&["load-format"]);
    if matches!(loader, OptionValue::Unknown) {
        return None;
    }
    let loaded_in_four_bits = loader.is("bitsandbytes");
    let by_name = precision_in_name(&name)?;
    let precision = match setting {
        OptionValue::Unknown => return None,
        _ if loaded_in_four_bits => Precision::FourBits,
        OptionValue::Text(method, _) if method != "none" => {
            let stated = precision_of_method(&method, is_tgi);
            [stated, by_name].into_iter().flatten().min_by_key(|precision| precision.size())?
        }
        _ => match by_name.or_else(|| native_precision(&name, parameters)) {
            Some(precision) => precision,
            None => match launch.setting(container, &["dtype"]) {
                OptionValue::Unknown => return None,
                OptionValue::Text(text, _) if matches!(text.as_str(), "float32" | "float") => {
                    Precision::Single
                }
                _ => Precision::Half,
            },
        },
    };
    Some((Weights { parameters, precision }, node))
}

/// The number of parameters, in millions, in the name of a model, such as 70,000 for `Llama-3.1-70B-Instruct`. `None`
/// if the name has no or several numbers, is that of an adapter, or is a path.
fn parameters(name: &str) -> Option<u64> {
    let is_path = name.starts_with(['/', '.', '~']) || name.contains("://") || name.matches('/').count() > 1;
    if is_path {
        return None;
    }
    let name = name.rsplit('/').next()?.to_ascii_lowercase();
    let mut found = None;
    for word in name.split(['-', '_', ':', '@', ' ']) {
        if ["lora", "qlora", "adapter", "adapters", "peft"].contains(&word) || is_experts(word) {
            return None;
        }
        let Some(number) = word.strip_suffix('b') else {
            continue;
        };
        let millions = match number {
            // Experts share the layers outside of them.
            "8x7" => 46_700,
            "8x22" => 141_000,
            number if number.contains('x') => return None,
            number => match thousandths(number) {
                Some(millions) => millions,
                None => continue,
            },
        };
        if found.is_some_and(|known| known != millions) {
            return None;
        }
        found = Some(millions);
    }
    found.filter(|millions| (1..=5_000_000).contains(millions))
}

/// `16e`: the number of experts. In such names the number of parameters is that of the active ones.
fn is_experts(word: &str) -> bool {
    word.strip_suffix('e').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Parses a decimal number, times 1,000.
fn thousandths(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1000 + fraction)
}

/// The precision in the name of a model; `Some(None)` without one, `None` if it is not one of these.
fn precision_in_name(name: &str) -> Option<Option<Precision>> {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if has(&["exl2", "exl3", "aqlm", "hqq", "quip", "bitnet", "mlx", "gguf", "ggml", "onnx", "unquantized"])
        || has(&["1bit", "2bit", "3bit", "int2", "int3", "2of4", "pruned", "sparse", "bit"])
    {
        return None;
    }
    if has(&["fp8", "int8", "8bit", "w8a8", "w8a16", "q8"]) {
        return Some(Some(Precision::EightBits));
    }
    if has(&["awq", "gptq", "int4", "4bit", "w4a16", "w4a8", "fp4", "nvfp4", "mxfp4", "q4", "bnb", "nf4"]) {
        return Some(Some(Precision::FourBits));
    }
    if has(&["quantized", "quant", "compressed", "qat"]) {
        return None;
    }
    Some(if has(&["fp32", "f32"]) { Some(Precision::Single) } else { None })
}

/// The precision in which some models are published, although their names do not contain it.
fn native_precision(name: &str, parameters: u64) -> Option<Precision> {
    let name = name.to_ascii_lowercase();
    if name.contains("gpt-oss") {
        return Some(Precision::FourBits);
    }
    (name.contains("deepseek") && parameters > 600_000).then_some(Precision::EightBits)
}

/// The precision for a value of `--quantization`; `None` if it depends on the files of the model.
fn precision_of_method(method: &str, is_tgi: bool) -> Option<Precision> {
    let method = method.to_ascii_lowercase();
    let is = |signs: &[&str]| signs.iter().any(|sign| method.contains(sign));
    if method == "bitsandbytes" && is_tgi || is(&["fp8", "int8", "eetq"]) {
        Some(Precision::EightBits)
    } else if is(&["awq", "gptq", "bitsandbytes", "fp4", "int4"]) {
        Some(Precision::FourBits)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_state_parameters() {
        for (name, expected) in [
            ("meta-llama/Llama-3.1-70B-Instruct", Some(70_000)),
            ("Qwen/Qwen2.5-1.5B", Some(1_500)),
            ("Qwen/Qwen2.5-7B-Instruct-1M", Some(7_000)),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some(46_700)),
            ("mistralai/Mixtral-8x22B-v0.1", Some(141_000)),
            ("Qwen/Qwen3-30B-A3B", Some(30_000)),
            ("openai/gpt-oss-120b", Some(120_000)),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", Some(32_000)),
            ("some/merge-4x8B", None),
            ("meta-llama/Llama-4-Scout-17B-16E-Instruct", None),
            ("google/gemma-3n-E4B-it", None),
            ("allenai/OLMoE-1B-7B-0924", None),
            ("deepseek-ai/DeepSeek-V3", None),
            ("acme/llama-70b-lora", None),
            ("/models/llama-70b", None),
            ("s3://models/llama-70b", None),
            ("models/acme/llama-70b", None),
            ("llama-70b-instruct", Some(70_000)),
            ("bigscience/bloomz-7b1", None),
            ("acme/b", None),
            ("acme/x-123456b", None),
        ] {
            assert_eq!(parameters(name), expected, "{name}");
        }
    }

    #[test]
    fn names_state_precision() {
        let (four, eight) = (Some(Some(Precision::FourBits)), Some(Some(Precision::EightBits)));
        for (name, expected) in [
            ("meta-llama/Llama-3.1-70B-Instruct", Some(None)),
            ("TheBloke/Llama-2-70B-chat-AWQ", four),
            ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", four),
            ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", eight),
            ("neuralmagic/Meta-Llama-3.1-405B-Instruct-FP8-dynamic", eight),
            ("acme/Llama-3.3-70B-Instruct-quantized.w4a16", four),
            ("acme/Llama-3.3-70B-Instruct-quantized", None),
            ("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", four),
            ("acme/Llama-70B-GGUF", None),
            ("acme/Llama-70B-exl2", None),
        ] {
            assert_eq!(precision_in_name(name), expected, "{name}");
        }
    }

    #[test]
    fn sizes_are_decimal() {
        let weights = |parameters, precision| Weights { parameters, precision };
        assert_eq!(weights(70_000, Precision::Half).megabytes(), 140_000);
        assert_eq!(weights(46_700, Precision::FourBits).megabytes(), 28_020);
        assert_eq!(weights(1_500, Precision::Half).parameters_text(), "1.5B");
        assert_eq!(weights(141_000, Precision::Half).parameters_text(), "141B");
    }
}
