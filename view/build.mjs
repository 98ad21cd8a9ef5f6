// The pages as one file each: script, style and, of the window, the runtime's WebAssembly inside, and the licences of what
// is bundled. `node build.mjs --test` bundles the tests.
import { build } from "esbuild";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

if (process.argv.includes("--test")) {
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`);
  await build({ entryPoints, bundle: true, platform: "node", format: "esm", outdir: "build/test", outExtension: { ".js": ".mjs" } });
} else {
  const wasm = gzipSync(readFileSync("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"), { level: 9 });
  await page("src/main.ts", "src/page.html", { RUNTIME: wasm.toString("base64") }, "../src/gatedrnn/view/page.html");
  mkdirSync("build", { recursive: true });
  await page("src/forget-bias.ts", "src/forget-bias.html", {}, "build/forget-bias.html");
}

async function page(entry, template, given, file) {
  const { outputFiles, metafile } = await build({
    entryPoints: [entry], bundle: true, minify: true, format: "esm", target: "es2022", write: false, metafile: true,
    // The bundle with its loader inside: a page from file:// may fetch nothing.
    alias: { "onnxruntime-web/wasm": "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs" },
  });
  const script = outputFiles[0].text.replaceAll("</script", "<\\/script");
  const parts = { STYLE: readFileSync("src/style.css", "utf8"), SCRIPT: script, NOTICES: notices(metafile), ...given };
  writeFileSync(`${file}.writing`, readFileSync(template, "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]));
  renameSync(`${file}.writing`, file);
}

// The licence of every package that ended in a bundle, as the package has it. onnxruntime-web comes without: its licence
// and the notices of what its WebAssembly is made of are those of onnxruntime's package for Python, of the same version.
function notices(metafile) {
  const found = Object.keys(metafile.inputs).map((name) => name.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]);
  const packages = [...new Set(found)].filter((name) => name !== undefined).sort();
  const texts = packages.map((name) => {
    const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
    const own = readdirSync(`node_modules/${name}`).filter((file) => /^(licen[cs]e|notice)/i.test(file)).sort();
    const files = own.length ? own.map((file) => `node_modules/${name}/${file}`) : [`notices/${name}-${version}.txt`];
    if (!existsSync(files[0])) throw new Error(`${name} ${version} has no licence file; write it into ${files[0]}`);
    return [`${name} ${version}, ${license}`, ...files.map((file) => readFileSync(file, "utf8").trim())].join("\n\n");
  });
  return texts.join(`\n\n${"=".repeat(80)}\n\n`).replaceAll("</script", "<\\/script");
}
