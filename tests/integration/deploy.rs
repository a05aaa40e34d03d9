//! The deployments of `examples/deploy/`: their settings are taken by the program, what they mount is there, and what one file says of
//! another holds. `.ci/lint` holds them to the schemas of Compose and Kubernetes.

use std::{fs, process::Command};

use crate::clients::runtimes::repository;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolmark");

/// The text of a file of `examples/deploy/`.
fn deployed(path: &str) -> String {
    fs::read_to_string(repository("examples/deploy").join(path)).unwrap()
}

/// The settings in the config map, without its indentation.
fn config_map() -> String {
    let map = deployed("kubernetes/configmap.yaml");
    let (_, block) = map.split_once("toolmark.toml: |\n").unwrap();
    block.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect()
}

#[test]
fn deployed_settings_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let packaged = fs::read_to_string(repository(".ci/package.d/toolmark.toml")).unwrap();
    for (name, settings, said) in [
        ("compose", deployed("compose/toolmark.toml"), "admin       http://0.0.0.0:8788"),
        ("kubernetes", config_map(), "admin       http://0.0.0.0:8788"),
        ("packages", packaged, "listen      http://127.0.0.1:8787"),
    ] {
        let file = directory.path().join(format!("{name}.toml"));
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(PROGRAM);
        command.env_clear().current_dir(&directory).arg("check").arg("--config").arg(&file);
        if name != "packages" {
            // What `environment.example` and the README's secret name.
            command.env("TOOLMARK_KEY", "ab".repeat(32)).env("TOOLMARK_ADMIN_TOKEN", "cd".repeat(32));
            command.env("TOOLMARK_LEDGER__URL", "postgres://toolmark:secret@postgres:5432/toolmark");
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(said) && text.ends_with("All is well.\n"), "{name}: {text}");
        assert_eq!(text.contains("ledger      postgres"), name != "packages", "{name}: {text}");
    }
}

#[test]
fn every_mounted_file_is_there() {
    let compose = deployed("compose/compose.yaml");
    let mounted: Vec<&str> =
        compose.lines().filter_map(|line| line.trim().strip_prefix("- ./").or(line.trim().strip_prefix("- ../"))).collect();
    assert_eq!(mounted.len(), 5, "{mounted:?}");
    for line in compose.lines().filter_map(|line| line.trim().strip_prefix("- .")) {
        let (path, _) = format!(".{line}").split_once(':').map(|(path, rest)| (path.to_owned(), rest.to_owned())).unwrap();
        assert!(repository("examples/deploy/compose").join(&path).is_file(), "{path}");
    }
    // The dashboard finds its data source by itself only where that is the only one.
    assert_eq!(deployed("compose/grafana/datasource.yml").matches("type: prometheus").count(), 1);
}

#[test]
fn secrets_are_named_and_in_no_file() {
    let (compose, example) = (deployed("compose/compose.yaml"), deployed("compose/environment.example"));
    let named: Vec<&str> = example.lines().filter_map(|line| line.strip_suffix('=')).collect();
    assert_eq!(named, ["TOOLMARK_KEY", "TOOLMARK_ADMIN_TOKEN", "POSTGRES_PASSWORD", "GRAFANA_PASSWORD"]);
    for name in named {
        assert!(compose.contains(&format!("${{{name}:?see environment.example}}")), "{name}");
    }
    let readme = deployed("README.md");
    for name in ["TOOLMARK_KEY", "TOOLMARK_ADMIN_TOKEN", "TOOLMARK_LEDGER__URL"] {
        assert!(readme.contains(&format!("--from-literal={name}=")), "{name}");
    }
    let deployment = deployed("kubernetes/deployment.yaml");
    assert!(deployment.contains("secretRef:\n                name: toolmark\n") && !deployment.contains("optional"), "{deployment}");
}

/// An exchange gets 30 s to end (docs/operating.md): nobody kills toolmark sooner.
#[test]
fn whoever_stops_it_waits_longer_than_exchanges_run() {
    let deployment = deployed("kubernetes/deployment.yaml");
    let (_, grace) = deployment.split_once("terminationGracePeriodSeconds: ").unwrap();
    let (_, pause) = deployment.split_once("sleep:\n                seconds: ").unwrap();
    let seconds = |text: &str| text.lines().next().unwrap().parse::<u32>().unwrap();
    assert!(seconds(grace) >= 45 + seconds(pause), "{deployment}");
    assert!(deployed("compose/compose.yaml").contains("stop_grace_period: 45s"));
    for wanted in ["readOnlyRootFilesystem: true", "runAsNonRoot: true", "allowPrivilegeEscalation: false", "drop: [ALL]", "path: /readyz"]
    {
        assert!(deployment.contains(wanted), "{wanted}");
    }
}
