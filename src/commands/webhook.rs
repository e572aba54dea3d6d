//! `gpulint webhook`: runs the admission server, and prints its manifests.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use gpulint_rules::lint::config::Config;
use gpulint_webhook::logs;
use gpulint_webhook::logs::LogFormat;
use gpulint_webhook::manifests;
use gpulint_webhook::manifests::Install;
use gpulint_webhook::serve;
use gpulint_webhook::serve::{Certificates, Options};
use gpulint_webhook::{Lifetimes, Limits, Registration, TlsFiles, TlsFloor};

use crate::args::webhook::{LogStyle, ManifestsArgs, ServeArgs, TlsMin, WebhookArgs, WebhookCommand};
use crate::error::CliError;
use crate::{config, output};

pub(crate) fn run(args: WebhookArgs) -> Result<ExitCode, CliError> {
    match args.command {
        WebhookCommand::Serve(args) => serve(*args),
        WebhookCommand::Manifests(args) => print_manifests(args),
    }
}

fn serve(args: ServeArgs) -> Result<ExitCode, CliError> {
    let format = match args.log_format {
        Some(LogStyle::Json) => LogFormat::Json,
        Some(LogStyle::Text) => LogFormat::Text,
        None if std::io::stderr().is_terminal() => LogFormat::Text,
        None => LogFormat::Json,
    };
    let usage = |error: &dyn std::error::Error| CliError::Usage(error.to_string());
    logs::start(format, &args.log).map_err(|e| usage(&e))?;
    serve::serve(options(args)?).map_err(|e| usage(&e))?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: ServeArgs) -> Result<Options, CliError> {
    let certificates = match args.tls_cert.zip(args.tls_key) {
        Some((certificate, key)) => Certificates::Files(TlsFiles { certificate, key }),
        None => {
            let (name, namespace) = (&args.name, &args.namespace);
            // The name that the API server uses, and other names of the Service.
            let mut names = vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
                format!("{name}.{namespace}"),
            ];
            names.extend(args.url.as_deref().and_then(host).map(str::to_owned));
            names.extend(args.dns_name);
            Certificates::SelfSigned {
                namespace: namespace.clone(),
                secret: args.secret.unwrap_or_else(|| format!("{name}-certificates")),
                names,
                lifetimes: Lifetimes {
                    ca: args.ca_lifetime,
                    serving: args.certificate_lifetime,
                    propagation_delay: args.ca_announce,
                },
            }
        }
    };
    let config = match &args.rules.config {
        Some(given) => Some(given.clone()),
        None if args.rules.isolated => None,
        None => config::nearest_config()?,
    };
    let config = config.map_or_else(Vec::new, |path| config::files_of(&path));
    let rules = args.rules;
    Ok(Options {
        listen: args.listen,
        operations: args.operations,
        limits: Limits {
            reviews: args.max_reviews as usize,
            connections: args.max_connections as usize,
            timeout: Duration::from_secs(args.timeout.into()),
            read: args.body_timeout,
            drain_delay: args.drain_delay,
            drain: args.drain_timeout,
            ..Limits::default()
        },
        tls_floor: match args.tls_min {
            TlsMin::Tls12 => TlsFloor::Tls12,
            TlsMin::Tls13 => TlsFloor::Tls13,
        },
        client_ca: args.client_ca,
        certificates,
        // If the certificate is read from files, its issuer also maintains the caBundle.
        registration: (!args.no_cluster).then(|| Registration {
            name: args.name.clone(),
            url: args.url.clone(),
            installed: args.registration,
        }),
        install: Install {
            name: args.name,
            namespace: args.namespace,
            url: args.url,
            timeout_seconds: args.timeout,
            events: args.events,
            ..Install::default()
        },
        read: Arc::new(move || config::settings(&rules).map_err(|e| e.to_string())),
        config,
        log_denies: args.log_denies,
        events: args.events,
        context: args.context,
        cluster: !args.no_cluster,
        refresh: args.refresh,
    })
}

/// The host of a URL, without the brackets of an IPv6 address.
fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split('/').next()?;
    if let Some(v6) = authority.strip_prefix('[') {
        return v6.split(']').next();
    }
    authority.split(':').next().filter(|host| !host.is_empty())
}

fn print_manifests(args: ManifestsArgs) -> Result<ExitCode, CliError> {
    let mut install = Install {
        name: args.name,
        namespace: args.namespace,
        replicas: args.replicas,
        fail: args.fail,
        timeout_seconds: args.timeout,
        exclude_kinds: args.exclude_kinds,
        include_kinds: args.include_kinds,
        karpenter_nodes: args.karpenter_nodes,
        host_network: args.host_network,
        port: args.port,
        operations_port: args.operations_port,
        events: args.events,
        ..Install::default()
    };
    install.exempt_namespaces.extend(args.exempt_namespaces);
    if let Some(image) = args.image {
        install.image = image;
    }
    if let Some(path) = &args.config {
        let (text, config) = validated_config(path)?;
        install.config = text;
        // The API server excludes these namespaces itself. It does not support globs.
        let settings = config.resolve();
        install.exempt_namespaces.extend(settings.webhook.exempt_namespaces.exact().map(str::to_owned));
    }
    let objects = manifests::objects(&install).map_err(|e| CliError::Usage(e.to_string()))?;
    let text = manifests::yaml(&objects).map_err(|e| CliError::Usage(e.to_string()))?;
    output::to_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a configuration and its settings, after validation.
fn validated_config(path: &PathBuf) -> Result<(String, Config), CliError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| CliError::Usage(format!("{name}: {e}")))?;
    match Config::parse(&name, &text) {
        Ok(config) => match config.extends() {
            // The ConfigMap contains only one file.
            Some(extends) => Err(CliError::Usage(format!(
                "{}: `extends` has no file to read in the cluster: write both configurations into one",
                extends.place
            ))),
            None => Ok((text, config)),
        },
        Err(errors) => Err(CliError::Several(errors.iter().map(ToString::to_string).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn the_host_of_a_url() {
        assert_eq!(host("https://10.0.0.7:8443"), Some("10.0.0.7"));
        assert_eq!(host("https://[::1]:8443/x"), Some("::1"));
        assert_eq!(host("https://gpulint.example.com"), Some("gpulint.example.com"));
        assert_eq!(host("nonsense"), None);
    }
}
