//! The store by which processes find each other, used by a plugin that the test compiles.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use traind_pjrt::{
    Client, CreateOptions, Error, ErrorCode, KeyValueStore, Plugin, StoreError, installed_plugin,
};

#[derive(Default)]
struct Memory {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl KeyValueStore for Memory {
    fn get(&self, key: &str, wait: Duration) -> Result<Vec<u8>, StoreError> {
        let values = self.values.lock().unwrap();
        let is_absent = |values: &mut HashMap<_, _>| !values.contains_key(key);
        let (values, _) = self.changed.wait_timeout_while(values, wait, is_absent).unwrap();
        let late = || StoreError {
            code: ErrorCode::DeadlineExceeded,
            message: format!("nobody gave {key}"),
        };
        values.get(key).cloned().ok_or_else(late)
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.values.lock().unwrap().get(key).cloned())
    }

    fn put(&self, key: &str, value: Vec<u8>) -> Result<(), StoreError> {
        assert_ne!(key, "panic");
        self.values.lock().unwrap().insert(key.to_owned(), value);
        self.changed.notify_all();
        Ok(())
    }
}

/// The plugin of `key_value_store.c`, if there is a C compiler.
fn plugin(folder: &TempDir) -> Option<Plugin> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/plugin/key_value_store.c");
    let library = folder.path().join("plugin.so");
    let header_folder = installed_plugin("cpu").unwrap().parent().unwrap().to_owned();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-pthread", "-o"]);
    let compiled = compiler.arg(&library).arg("-I").arg(header_folder).arg(source).output().ok()?;
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(Plugin::load(library).unwrap())
}

#[test]
fn a_plugin_exchanges_values_from_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    let Some(plugin) = plugin(&folder) else {
        eprintln!("skipped: this machine has no C compiler `cc`");
        return;
    };
    let text = |result: Result<Client, Error>| result.err().unwrap().to_string();

    let store = Arc::new(Memory::default());
    let error = text(Client::with_store(plugin, &CreateOptions::new(), store.clone()));
    let expected = "8 right; known 0; absent 5; late 4 nobody gave absent; panicked 13";
    assert!(error.contains(expected), "{error}");
    let values = store.values.lock().unwrap();
    assert_eq!((values.len(), &values["node/7"][..]), (8, &[0, b'v', 7][..]));

    let error = text(Client::new(plugin, &CreateOptions::new()));
    assert!(error.contains("no store"), "{error}");
}
