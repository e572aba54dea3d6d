//! The arguments of `gpulint webhook`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use gpulint_rules::facts::names::{is_dns_1035_label, is_dns_label};

use super::RuleArgs;

/// `gpulint webhook`.
#[derive(Debug, clap::Args)]
pub(crate) struct WebhookArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: WebhookCommand,
}

/// The commands of the webhook.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Run the admission server
    Serve(Box<ServeArgs>),
    /// Print the manifests that install it
    Manifests(ManifestsArgs),
}

/// `gpulint webhook serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --tls-cert the server makes its own certificates: a CA and a serving pair, kept in a \
Secret that all replicas share, and it keeps the caBundle of its webhook configurations up to \
date. It finds the cluster through KUBECONFIG and --context, or through its service account.

Outside the cluster: kubectl create namespace gpulint; gpulint webhook serve --context NAME \
--url https://ADDRESS:8443, where ADDRESS is this machine as the API server reaches it. It says \
which cluster and account it writes to, and makes the webhook configurations itself.

Findings of webhook.deny (default: error) deny a request; those of webhook.warn become warnings. \
Always warnings: what the API server itself rejects, because it has validated the object before and its \
schemas may be newer; what lacks an object that may be applied next; and, on updates, what the old object had already.

SIGTERM: /readyz fails, the server goes on for --drain-delay, then it finishes what is open.")]
pub(crate) struct ServeArgs {
    /// Where /validate and /mutate listen, over TLS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
    pub(crate) listen: SocketAddr,

    /// Where /healthz, /readyz and /metrics listen, without TLS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub(crate) operations: SocketAddr,

    /// The serving certificate with its chain, as PEM; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's private key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Clients have to show a certificate of this CA, as PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,

    /// The oldest version of TLS that is accepted
    #[arg(long, value_name = "VERSION", value_enum, default_value_t = TlsMin::Tls12)]
    pub(crate) tls_min: TlsMin,

    /// The name of the Service and of both webhook configurations
    #[arg(long, default_value = "gpulint", value_parser = service_name)]
    pub(crate) name: String,

    /// The namespace of the Service and of the Secret; never checked
    #[arg(long, env = "POD_NAMESPACE", default_value = "gpulint", value_parser = namespace_name)]
    pub(crate) namespace: String,

    /// Without a Service: register under this URL, making the webhook configurations
    #[arg(long, value_name = "URL", conflicts_with = "no_cluster")]
    pub(crate) url: Option<String>,

    /// The folder with the webhooks as installed, which are restored after changes (the ConfigMap of the manifests)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["no_cluster", "url"])]
    pub(crate) registration: Option<PathBuf>,

    /// The context of the kubeconfig file [default: the current one, or the cluster of this pod]
    #[arg(long, value_name = "NAME", conflicts_with = "no_cluster")]
    pub(crate) context: Option<String>,

    /// Further DNS names and addresses for generated certificates
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) dns_name: Vec<String>,

    /// The Secret for generated certificates [default: NAME-certificates]
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Option<String>,

    /// Lifetime of a generated serving certificate; renewed when a third is left
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = duration)]
    pub(crate) certificate_lifetime: Duration,

    /// Lifetime of a generated CA; renewed when a third is left
    #[arg(long, value_name = "TIME", default_value = "1095d", value_parser = duration)]
    pub(crate) ca_lifetime: Duration,

    /// How long a new CA is published before it signs certificates
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) ca_announce: Duration,

    /// Watch nothing and register nothing: rules that need other objects report nothing
    #[arg(long, requires = "tls_cert")]
    pub(crate) no_cluster: bool,

    /// How often files, Secret and webhook configurations are checked for changes
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) refresh: Duration,

    /// How long the API server waits (`timeoutSeconds`); registered with --url, and no client may ask for more
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=30))]
    pub(crate) timeout: u32,

    /// How long the first MiB of a request may take to arrive, and each further one a second
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(crate) body_timeout: Duration,

    /// Concurrent reviews, except small ones; further ones are left to the failure policy
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) max_reviews: u32,

    /// Concurrent connections; a further one takes the place of one of the address that holds most
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) max_connections: u32,

    /// How long to keep serving after SIGTERM, until Services have noticed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) drain_delay: Duration,

    /// How long open requests may then take
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    pub(crate) drain_timeout: Duration,

    /// Log each denial: kind, name, rules and user, nothing of the object
    #[arg(long)]
    pub(crate) log_denies: bool,

    /// Write an Event beside what was denied or not checked, at most one every 200 ms; not for dry runs
    #[arg(long, conflicts_with = "no_cluster")]
    pub(crate) events: bool,

    /// Format of log lines [default: text on a terminal, json elsewhere]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogStyle>,

    /// What is logged, such as `info` or `gpulint_webhook=debug`
    #[arg(long, env = "GPULINT_LOG", default_value = "info", value_name = "FILTER")]
    pub(crate) log: String,

    /// Configuration, platform and rules.
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// `gpulint webhook manifests`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManifestsArgs {
    /// The name of everything
    #[arg(long, default_value = "gpulint", value_parser = service_name)]
    pub(crate) name: String,

    /// The namespace, which is created
    #[arg(long, default_value = "gpulint", value_parser = namespace_name)]
    pub(crate) namespace: String,

    /// The container image [default: this version's]
    #[arg(long)]
    pub(crate) image: Option<String>,

    /// How many replicas
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) replicas: u32,

    /// Requests are denied where the webhook does not answer; without it, they are allowed. It is about NodePools, node
    /// classes, NodeOverlays, scalers and devices: all else, Pods and workloads included, is always allowed
    #[arg(long)]
    pub(crate) fail: bool,

    /// How long the API server waits for those, in seconds; for all else it is one
    #[arg(long, default_value_t = 3, value_name = "SECONDS")]
    pub(crate) timeout: u32,

    /// Further namespaces whose objects are not sent to the webhook
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace_name)]
    pub(crate) exempt_namespaces: Vec<String>,

    /// Kinds that are not matched, such as Pod,NodeClaim
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) exclude_kinds: Vec<String>,

    /// Kinds that are matched on request: ConfigMap,Namespace,Node
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) include_kinds: Vec<String>,

    /// The pods may run on nodes that Karpenter created
    #[arg(long)]
    pub(crate) karpenter_nodes: bool,

    /// The pods are on the network of their nodes: where the API server does not reach that of pods
    #[arg(long)]
    pub(crate) host_network: bool,

    /// The container port of /validate and /mutate
    #[arg(long, default_value_t = 8443, value_name = "PORT")]
    pub(crate) port: u16,

    /// The container port of health and metrics
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    pub(crate) operations_port: u16,

    /// Write an Event beside what was denied or not checked
    #[arg(long)]
    pub(crate) events: bool,

    /// The gpulint.yaml to install; checked first
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The oldest version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsMin {
    /// TLS 1.2 and 1.3
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3 alone
    #[value(name = "1.3")]
    Tls13,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogStyle {
    /// One JSON object per line
    Json,
    /// For people
    Text,
}

/// The name of a Service.
fn service_name(text: &str) -> Result<String, String> {
    let right = is_dns_1035_label(text).then(|| text.to_owned());
    right.ok_or_else(|| {
        "a name has at most 63 lower-case letters, digits and `-`, and begins with a letter".to_owned()
    })
}

fn namespace_name(text: &str) -> Result<String, String> {
    let right = is_dns_label(text).then(|| text.to_owned());
    right.ok_or_else(|| "a namespace has at most 63 lower-case letters, digits and `-`".to_owned())
}

/// Parses `500ms`, `10s`, `5m`, `2h` or `90d`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time looks like 10s, 5m, 2h or 90d".to_owned();
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..unit].parse().map_err(|_| wrong())?;
    let seconds = match &text[unit..] {
        "ms" => return Ok(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    // One hundred years, which is enough for certificates and safe for clocks.
    let most = 36_500 * 86_400;
    let product = number.checked_mul(seconds).filter(|s| *s <= most);
    product.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_services_and_namespaces() {
        assert!(service_name("gpulint-2").is_ok() && namespace_name("2-gpulint").is_ok());
        for wrong in ["", "UPPER_case", "Gpulint", "a.b", "-a", "a-", "a b", &"a".repeat(64)] {
            assert!(service_name(wrong).is_err() && namespace_name(wrong).is_err(), "{wrong}");
        }
        assert!(service_name("2-gpulint").is_err());
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "5", "s", "-5s", "5w", "99999999999999999999s", "99999999d", "٣s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
