//! Turns a program for wasm32 into files of a page: `bindgen PROGRAM NAME FOLDER`.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, name, folder] = arguments.as_slice() else {
        eprintln!("usage: bindgen PROGRAM NAME FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(program)
        .out_name(name)
        .typescript(false)
        // A page names no file of the program.
        .omit_default_module_path(false);
    let made = bindgen
        .web(true)
        .and_then(|bindgen| bindgen.generate(folder));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bindgen: {program}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
