// The pages as one file each: script, style and, of the window, the runtime's WebAssembly inside. `node build.mjs --test`
// bundles the tests.
import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
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
  const { outputFiles } = await build({
    entryPoints: [entry], bundle: true, minify: true, format: "esm", target: "es2022", write: false,
    // The bundle with its loader inside: a page from file:// may fetch nothing.
    alias: { "onnxruntime-web/wasm": "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs" },
  });
  const script = outputFiles[0].text.replaceAll("</script", "<\\/script");
  const parts = { STYLE: readFileSync("src/style.css", "utf8"), SCRIPT: script, ...given };
  writeFileSync(file, readFileSync(template, "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]));
}
