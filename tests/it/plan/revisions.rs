//! Revisions of git: `gpulint plan` and `gpulint check --since` in a repository of the test.

use std::process::Command;

use crate::support::{Folder, Run};

/// A repository in a folder of the test.
struct Repository(Folder);

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {nvidia.com/gpu: 8}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m, budgets: [{nodes: '1'}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      expireAfter: 720h
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";

const OLD_FINDING: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: old, namespace: ml}
spec:
  replicas: 2
  selector: {matchLabels: {app: old}}
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: a, image: 'registry.internal/a:latest'}]}
";

impl Repository {
    fn new() -> Repository {
        let repository =
            Repository(Folder::new().with("clusters/pool.yaml", POOL).with("clusters/old.yaml", OLD_FINDING));
        repository.git(&["init", "-q", "-b", "main"]);
        repository.commit("first");
        repository
    }

    fn git(&self, args: &[&str]) {
        self.0.git(args);
    }

    fn commit(&self, title: &str) {
        self.0.commit(title);
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Run {
        self.0.run(args)
    }

    fn change_pool(&self) {
        self.write("clusters/pool.yaml", &POOL.replace("expireAfter: 720h", "expireAfter: 168h"));
    }
}

#[test]
fn the_working_tree_is_compared_with_where_it_left_the_default_branch() {
    let repository = Repository::new();
    repository.run(&["plan"]).exits(0).prints("main -> the working tree: nothing changes");
    repository.git(&["checkout", "-q", "-b", "topic"]);
    repository.change_pool();
    let expected = "gpu: all nodes are replaced, by `spec.template.spec.expireAfter`";
    repository.run(&["plan"]).exits(0).prints(expected).prints("(clusters/pool.yaml:10)");
    repository.commit("expire sooner");
    repository.run(&["plan"]).exits(0).prints(expected);
    // What the base has since is not part of the change.
    repository.git(&["checkout", "-q", "main"]);
    repository.write("clusters/pool.yaml", &POOL.replace("g6", "g5"));
    repository.commit("other");
    repository.git(&["checkout", "-q", "topic"]);
    let run = repository.run(&["plan", "main"]).exits(0).prints(expected);
    assert!(!run.out.contains("instance-family"), "{run:#?}");
    let run = repository.run(&["plan", "main..topic"]).exits(0).prints("instance-family");
    assert!(run.out.starts_with("main -> topic: "), "{run:#?}");
    let run = repository.run(&["plan", "main...topic"]).exits(0);
    assert!(!run.out.contains("instance-family"), "{run:#?}");
    repository.run(&["plan", "topic..topic"]).exits(0).prints("nothing changes");
}

#[test]
fn nothing_is_written_into_the_repository() {
    let repository = Repository::new();
    repository.change_pool();
    repository.commit("expire sooner");
    let list = || {
        let mut all: Vec<String> = Vec::new();
        let mut folders = vec![repository.0.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap();
                let data = entry.metadata().unwrap();
                if data.is_dir() {
                    folders.push(entry.path());
                }
                all.push(format!("{} {:?} {}", entry.path().display(), data.modified().unwrap(), data.len()));
            }
        }
        all.sort();
        all
    };
    let before = list();
    repository.run(&["plan", "HEAD~1..HEAD"]).exits(0).prints("expireAfter");
    repository.run(&["check", "--since", "HEAD~1"]);
    assert_eq!(list(), before);
}

#[test]
fn paths_narrow_a_plan() {
    let repository = Repository::new();
    repository.change_pool();
    repository.write("other/pool.yaml", &POOL.replace("name: gpu}\nspec", "name: other}\nspec"));
    repository.run(&["plan", "HEAD", "other"]).exits(0).prints("other is new");
    let run = repository.run(&["plan", "HEAD", "clusters"]).exits(0).prints("expireAfter");
    assert!(!run.out.contains("other"), "{run:#?}");
    // Without a revision the first argument is a path.
    repository.run(&["plan", "./clusters"]).exits(0).prints("expireAfter");
    let clusters = repository.0.0.join("clusters");
    crate::support::run_in(&clusters, &["plan", "HEAD"], "").exits(0).prints("(pool.yaml:10)");
}

#[test]
fn a_file_is_compared_beside_what_it_is_applied_with() {
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  role: nodes\n  \
                 amiSelectorTerms: [{alias: bottlerocket@v1.40.0}]\n  subnetSelectorTerms: [{tags: {team: ml}}]\n  \
                 securityGroupSelectorTerms: [{tags: {team: ml}}]\n";
    let pods = OLD_FINDING.replace("name: old", "name: pods");
    let repository = Repository::new();
    repository.write("clusters/class.yaml", class);
    repository.write("clusters/pods.yaml", &pods);
    repository.commit("class and pods");
    repository.git(&["checkout", "-q", "-b", "topic"]);
    repository.write("clusters/class.yaml", &class.replace("role: nodes", "role: others"));
    repository.write("clusters/pool.yaml", &POOL.replace("[g6]", "[g6e]"));
    let (own, other) = ("instance-family", "spec.role");
    let check = |args: &[&str], name: &str| {
        let run = repository.run(&[&["plan"], args].concat()).exits(0).prints(own);
        assert!(run.out.starts_with(&format!("main -> {name}: ")), "{run:#?}");
        assert!(!run.out.contains(other), "{run:#?}");
    };
    check(&["clusters/pool.yaml"], "clusters/pool.yaml of the working tree");
    check(&["main", "clusters/pool.yaml", "clusters/pods.yaml"], "2 files of the working tree");
    let clusters = repository.0.0.join("clusters");
    let run = crate::support::run_in(&clusters, &["plan", "class.yaml"], "").exits(0).prints(other);
    assert!(!run.out.contains(own), "{run:#?}");
    repository.commit("both");
    check(&["main..topic", "clusters/pool.yaml"], "clusters/pool.yaml of topic");
    // A file is new, or gone.
    let run = repository.run(&["plan", "main~1..topic", "clusters/class.yaml", "--fail-on", "never"]);
    run.exits(0).prints("gone  info[node-class-missing] clusters/pool.yaml");
    repository.git(&["rm", "-q", "clusters/pool.yaml"]);
    repository.run(&["plan", "HEAD", "clusters/pool.yaml"]).exits(0).prints("gpu is gone");
    // With a folder all that is below it changes.
    repository.run(&["plan", "main..topic", "clusters", "clusters/pool.yaml"]).prints(own).prints(other);
}

#[test]
fn flags_decide_what_fails() {
    let repository = Repository::new();
    repository.change_pool();
    repository.run(&["plan", "HEAD"]).exits(0);
    repository.run(&["plan", "HEAD", "--fail-on-replacement"]).exits(1).prints("fails: nodes are replaced");
    repository
        .run(&["plan", "HEAD", "--nodes", "gpu=12"])
        .exits(0)
        .prints("12 nodes, one at a time: 36 min to 48 min");
    repository.run(&["plan", "HEAD", "--nodes", "gp=12"]).exits(2).complains("no NodePool `gp`");
    repository.write("clusters/new.yaml", &OLD_FINDING.replace("old", "new"));
    let run = repository.run(&["plan", "HEAD", "--fail-on", "info"]).exits(1);
    run.prints("image-tag-latest").prints("fails: ");
    repository.run(&["plan", "HEAD", "--fail-on", "never"]).exits(0);
}

#[test]
fn a_revision_that_is_not_there_is_an_error() {
    let repository = Repository::new();
    repository.run(&["plan", "nowhere"]).exits(2).complains("there is no revision `nowhere`");
    repository.run(&["plan", "main..nowhere"]).exits(2).complains("there is no revision `nowhere`");
    repository.write("main/a.yaml", POOL);
    repository.run(&["plan", "main"]).exits(2).complains("`main` is a revision and a path");
    repository
        .run(&["plan", "HEAD..HEAD", "nowhere.yaml"])
        .exits(2)
        .complains("nowhere.yaml: neither `HEAD` nor");
    repository.git(&["branch", "topic"]);
    repository.run(&["plan", "HEAD", "topic"]).exits(2).complains("two of them are written as HEAD..topic");
    Folder::new().with("a.yaml", POOL).run(&["plan"]).exits(2).complains("--before DIR --after DIR");
}

#[test]
fn a_shallow_clone_says_what_to_fetch() {
    let repository = Repository::new();
    repository.change_pool();
    repository.commit("second");
    let clone = Folder::new();
    let from = format!("file://{}", repository.0.0.display());
    let args = ["clone", "-q", "--depth", "1", from.as_str(), "clone"];
    let output = Command::new("git").args(args).current_dir(&clone.0).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let run = crate::support::run_in(&clone.0.join("clone"), &["plan", "HEAD~1..HEAD"], "");
    run.exits(2).complains("the clone is shallow").complains("`fetch-depth: 0`");
    // A job on a pull request has its merge commit alone, and no branch.
    let job = Folder::new();
    job.git(&["init", "-q", "-b", "main"]);
    job.git(&["fetch", "-q", "--depth", "1", &from, "main:refs/remotes/pull/1/merge"]);
    job.git(&["checkout", "-q", "--detach", "refs/remotes/pull/1/merge"]);
    job.run(&["plan"]).exits(2).complains("no default branch is known").complains("`fetch-depth: 0`");
}

#[test]
fn only_new_findings_are_reported_since_a_revision() {
    let repository = Repository::new();
    repository.run(&["check"]).prints("image-tag-latest");
    let run = repository.run(&["check", "--since", "HEAD"]).exits(0).prints("no findings");
    assert!(run.out.contains("there before `HEAD`"), "{run:#?}");
    // A line that moves is not new.
    repository.write("clusters/old.yaml", &format!("# a comment\n\n{OLD_FINDING}"));
    repository.run(&["check", "--since", "HEAD"]).exits(0).prints("no findings");
    repository.write("clusters/new.yaml", &OLD_FINDING.replace("old", "new"));
    for format in
        ["text", "concise", "github", "gitlab", "sarif", "junit", "rdjson", "json", "html", "markdown"]
    {
        let run =
            repository.run(&["check", "--since", "HEAD", "--fail-on", "info", "--format", format]).exits(1);
        let run = run.prints("clusters/new.yaml");
        // The page shows the NodePools with their workloads as well.
        assert!(format == "html" || !run.out.contains("clusters/old.yaml"), "{format}: {run:#?}");
    }
    repository
        .run(&["check", "--since", "HEAD", "--fail-on", "info", "clusters/new.yaml"])
        .exits(1)
        .prints("clusters/new.yaml");
    repository.run(&["check", "--since", "HEAD", "clusters/old.yaml"]).exits(0).prints("no findings");
    repository.run(&["check", "--since", "none"]).exits(2).complains("--since: there is no revision `none`");
}

/// The repository is that of the paths, wherever the command runs.
#[test]
fn the_revision_is_one_of_the_repository_of_the_paths() {
    let repository = Repository::new();
    repository.write("clusters/new.yaml", &OLD_FINDING.replace("old", "new"));
    let path = repository.0.0.to_str().unwrap();
    let other = Repository::new();
    for elsewhere in [&Folder::new(), &other.0] {
        let args = ["check", "--since", "HEAD", "--fail-on", "info", path];
        let run = elsewhere.run(&args).exits(1).prints("clusters/new.yaml");
        assert!(!run.out.contains("clusters/old.yaml"), "{run:#?}");
    }
    let both = other.run(&["check", "--since", "HEAD", ".", path]).exits(2);
    both.complains("are in different repositories");
}

#[test]
fn definitions_of_the_input_hold_on_both_sides() {
    let repository = Repository::new();
    repository.write(
        "crds/queues.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: lanes.example.org}\n\
         spec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Lane, plural: lanes}\n  versions:\n\
         \x20   - name: v1\n      served: true\n      storage: true\n      schema:\n        openAPIV3Schema:\n\
         \x20         type: object\n          properties:\n\
         \x20           spec: {type: object, properties: {weight: {type: integer}}}\n",
    );
    let lane = |name: &str| {
        format!(
            "apiVersion: example.org/v1\nkind: Lane\nmetadata: {{name: {name}, namespace: ml}}\nspec: {{weight: heavy}}\n"
        )
    };
    repository.write("clusters/lane.yaml", &lane("slow"));
    repository.commit("a lane that its definition rejects");
    repository.run(&["check"]).prints("clusters/lane.yaml");
    repository.run(&["check", "--since", "HEAD"]).exits(0).prints("no findings");
    repository.run(&["plan", "HEAD~1..HEAD"]).prints("clusters/lane.yaml");
    repository.write("clusters/other.yaml", &lane("fast"));
    let run = repository.run(&["check", "--since", "HEAD"]).exits(1).prints("clusters/other.yaml");
    assert!(!run.out.contains("clusters/lane.yaml"), "{run:#?}");
}

#[test]
fn a_file_that_moves_brings_nothing_new() {
    let repository = Repository::new();
    std::fs::create_dir_all(repository.0.0.join("moved")).unwrap();
    repository.git(&["mv", "clusters/old.yaml", "moved/old.yaml"]);
    repository.commit("move");
    repository.run(&["plan", "HEAD~1..HEAD"]).exits(0).prints("nothing changes");
    let args = ["check", "--since", "HEAD~1", "--fail-on", "info", "."];
    repository.run(&args).exits(0).prints("no findings");
    // A copy is new.
    repository.write("copy/old.yaml", OLD_FINDING);
    repository.run(&args).exits(1).prints("copy/old.yaml");
    // What is new in a file that moves is new.
    repository.write("copy/old.yaml", "");
    repository.write("moved/old.yaml", &OLD_FINDING.replace("replicas: 2", "replicas: 2\n  paused: true").replace(
        "image: 'registry.internal/a:latest'",
        "image: 'registry.internal/a:latest', resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}",
    ));
    let run = repository.run(&args).exits(1);
    assert!(run.out.contains("moved/old.yaml") && !run.out.contains("image-tag-latest"), "{run:#?}");
}

#[test]
fn an_object_that_is_missing_counts_only_if_it_is_asked_about() {
    let repository = Repository::new();
    repository.write("tool/run", "not a manifest");
    repository.write("other/pool.yaml", &POOL.replace("name: gpu}\nspec", "name: other}\nspec"));
    repository.commit("second");
    repository.change_pool();
    repository.commit("expire sooner");
    let lose = |file: &str| {
        let name = format!("HEAD:{file}");
        let output =
            Command::new("git").args(["rev-parse", &name]).current_dir(&repository.0.0).output().unwrap();
        let id = String::from_utf8(output.stdout).unwrap();
        let (folder, rest) = id.trim().split_at(2);
        std::fs::remove_file(repository.0.0.join(".git/objects").join(folder).join(rest)).unwrap();
    };
    lose("tool/run");
    repository.run(&["plan", "HEAD~1..HEAD"]).exits(0).prints("expireAfter");
    repository.run(&["check", "--since", "HEAD~1"]).exits(0);
    lose("other/pool.yaml");
    repository.run(&["plan", "HEAD~1..HEAD", "clusters"]).exits(0).prints("expireAfter");
    repository.run(&["plan", "HEAD~1..HEAD"]).exits(2).complains("other/pool.yaml");
}

#[test]
fn what_cannot_be_rendered_is_not_what_does_not_change() {
    let chart = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
    let folder = Folder::new()
        .with("before/chart/Chart.yaml", chart)
        .with("before/chart/templates/pool.yaml", POOL)
        .with("after/chart/Chart.yaml", chart)
        .with("after/chart/templates/pool.yaml", POOL.replace("720h", "168h"));
    let nowhere = std::path::Path::new("/nonexistent");
    let args = ["plan", "--render", "--before", "before", "--after", "after", "--format"];
    let run = |format: &str| {
        crate::render::run_with_path(nowhere, &folder.0, &[&args[..], &[format]].concat()).exits(2)
    };
    let text = run("text").complains("before and after: `helm template chart` was not run");
    assert!(text.out.contains("what changes is not known"), "{text:#?}");
    let page = run("markdown").prints("What changes is not known").prints("**Not read or rendered**");
    assert!(!page.out.contains("othing changes"), "{page:#?}");
}

#[test]
fn the_options_of_another_command_are_not_named() {
    let folder = Folder::new().with("pool.yaml", POOL);
    let run = folder.run(&["check", "--since", "main"]).exits(2).complains("is in no git repository");
    assert!(!run.err.contains("--before"), "{run:#?}");
    folder.run(&["plan"]).exits(2).complains("is in no git repository; --before DIR --after DIR");
    let sets = Folder::new()
        .with("before/gpulint.yaml", "clusters: [\"*\"]\n")
        .with("before/prod/pool.yaml", POOL)
        .with("before/stage/pool.yaml", POOL)
        .with("after/gpulint.yaml", "clusters: [\"*\"]\n")
        .with("after/prod/pool.yaml", POOL.replace("720h", "168h"))
        .with("after/stage/pool.yaml", POOL);
    let args = ["plan", "--before", "before", "--after", "after", "--set"];
    sets.run(&[&args[..], &["prd"]].concat())
        .exits(2)
        .complains("there is no set `prd`; did you mean `prod`?");
}
