//! AWSNodeTemplate v1alpha1 and EC2NodeClass v1beta1.

use super::{becomes, is_left};

const TEMPLATE: &str = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate";
const CLASS: &str = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass";

/// The fields that the conversion of a template without further settings adds.
const DEFAULTS: &str =
    "  amiSelectorTerms: [{alias: al2@latest}]\n  metadataOptions: {httpPutResponseHopLimit: 2}\n";

#[track_caller]
fn template(old: &str, new: &str) {
    becomes(TEMPLATE, &format!("  {old}\n"), &format!("  {new}\n{DEFAULTS}"));
}

#[test]
fn a_family_becomes_an_alias() {
    for (old, alias) in [
        ("{}", "al2"),
        ("{amiFamily: AL2}", "al2"),
        ("{amiFamily: Bottlerocket}", "bottlerocket"),
        ("{amiFamily: Windows2022}", "windows2022"),
    ] {
        becomes(
            TEMPLATE,
            &format!("  {old}\n"),
            &format!(
                "  {{amiSelectorTerms: [{{alias: {alias}@latest}}], metadataOptions: {{httpPutResponseHopLimit: 2}}}}\n"
            ),
        );
    }
    is_left(TEMPLATE, "  amiFamily: Ubuntu\n", "Ubuntu");
    is_left(TEMPLATE, "  amiFamily: Custom\n", "no alias");
}

#[test]
fn selectors_become_terms() {
    template(
        "subnetSelector: {karpenter.sh/discovery: prod, tier: private}",
        "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod, tier: private}}]",
    );
    template(
        "securityGroupSelector: {karpenter.sh/discovery: '${CLUSTER}'}",
        "securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: '${CLUSTER}'}}]",
    );
}

#[test]
fn ids_become_a_term_each() {
    template(
        "subnetSelector: {aws-ids: 'subnet-1, subnet-2'}",
        "subnetSelectorTerms: [{id: subnet-1}, {id: subnet-2}]",
    );
    template("securityGroupSelector: {'aws::ids': sg-1}", "securityGroupSelectorTerms: [{id: sg-1}]");
    is_left(TEMPLATE, "  subnetSelector: {aws-ids: subnet-1, team: vision}\n", "ids and for tags");
    is_left(TEMPLATE, "  subnetSelector: {aws-ids: '${IDS}'}\n", "placeholder");
}

#[test]
fn a_comma_means_a_term_for_each_value() {
    template(
        "subnetSelector: {Name: 'a,b', team: vision}",
        "subnetSelectorTerms: [{tags: {Name: a, team: vision}}, {tags: {Name: b, team: vision}}]",
    );
    is_left(TEMPLATE, "  subnetSelector: {a: '1,2,3,4,5,6', b: '1,2,3,4,5,6'}\n", "more than 30");
}

#[test]
fn ami_names_and_owners_cross() {
    becomes(
        TEMPLATE,
        "  amiFamily: Custom\n  amiSelector: {'aws::name': 'x-*,y-*', 'aws::owners': 'self,amazon'}\n",
        "  amiFamily: Custom\n  amiSelectorTerms: [{name: x-*, owner: self}, {name: x-*, owner: amazon}, {name: y-*, owner: self}, {name: y-*, owner: amazon}]\n  metadataOptions: {httpPutResponseHopLimit: 2}\n",
    );
    // The family of a template that selected an AMI but no family was AL2.
    becomes(
        TEMPLATE,
        "  amiSelector: {aws-ids: ami-1}\n",
        "  amiFamily: AL2\n  amiSelectorTerms: [{id: ami-1}]\n  metadataOptions: {httpPutResponseHopLimit: 2}\n",
    );
    is_left(TEMPLATE, "  amiSelector: {'aws::owners': self}\n", "an owner");
}

#[test]
fn a_launch_template_is_left() {
    is_left(TEMPLATE, "  launchTemplate: mine\n", "launch template");
}

#[test]
fn the_other_settings_stay() {
    let same = "instanceProfile: nodes\n  userData: |\n    x\n  tags: {team: vision}\n  detailedMonitoring: true\n  context: c\n  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi}}]";
    template(same, same);
}

#[test]
fn written_metadata_options_of_a_template_stay() {
    becomes(
        TEMPLATE,
        "  metadataOptions: {httpTokens: required}\n",
        "  metadataOptions: {httpTokens: required}\n  amiSelectorTerms: [{alias: al2@latest}]\n",
    );
}

#[test]
fn a_beta_family_becomes_an_alias_unless_terms_choose() {
    let hops = "metadataOptions: {httpPutResponseHopLimit: 2}";
    becomes(
        CLASS,
        "  amiFamily: AL2023\n  role: nodes\n",
        &format!("  {hops}\n  role: nodes\n  amiSelectorTerms: [{{alias: al2023@latest}}]\n"),
    );
    let chosen = "amiFamily: AL2\n  amiSelectorTerms: [{id: ami-1}]";
    becomes(CLASS, &format!("  {chosen}\n"), &format!("  {chosen}\n  {hops}\n"));
    is_left(CLASS, "  amiFamily: Ubuntu\n", "Ubuntu");
}

#[test]
fn beta_metadata_options_keep_two_hops() {
    let ami = "amiSelectorTerms: [{id: ami-1}]\n  amiFamily: Custom";
    becomes(
        CLASS,
        &format!("  {ami}\n  metadataOptions: {{httpTokens: required}}\n"),
        &format!("  {ami}\n  metadataOptions: {{httpTokens: required, httpPutResponseHopLimit: 2}}\n"),
    );
    let one = "metadataOptions: {httpPutResponseHopLimit: 1}";
    becomes(CLASS, &format!("  {ami}\n  {one}\n"), &format!("  {ami}\n  {one}\n"));
}
