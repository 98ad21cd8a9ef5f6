// The page as one file: script, style and the runtime's WebAssembly inside. `node build.mjs --test` bundles the tests.
import { build } from "esbuild";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

if (process.argv.includes("--test")) {
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`);
  await build({ entryPoints, bundle: true, platform: "node", format: "esm", outdir: "build/test", outExtension: { ".js": ".mjs" } });
} else {
  const { outputFiles } = await build({
    entryPoints: ["src/main.ts"], bundle: true, minify: true, format: "esm", target: "es2022", write: false,
    // The bundle with its loader inside: a page from file:// may fetch nothing.
    alias: { "onnxruntime-web/wasm": "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs" },
  });
  const wasm = gzipSync(readFileSync("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"), { level: 9 });
  const script = outputFiles[0].text.replaceAll("</script", "<\\/script");
  const parts = { STYLE: readFileSync("src/style.css", "utf8"), RUNTIME: wasm.toString("base64"), SCRIPT: script };
  const page = readFileSync("src/page.html", "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
  writeFileSync("../src/gatedrnn/view/page.html", page);
}
