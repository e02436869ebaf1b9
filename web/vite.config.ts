import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

// A report is one file that talks to nobody, and no text in it may run as a
// script. So the built script and style are put into the page, and a policy
// tells the browser that only this script, known by its hash, may run, and that
// nothing may be loaded from anywhere.
function selfContained(): Plugin {
  return {
    name: "tare-self-contained",
    enforce: "post",
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        const files = Object.values(bundle);
        const page = files.find((f) => f.type === "asset" && f.fileName === "report.html");
        const scripts = files.filter((f) => f.type === "chunk");
        const styles = files.filter((f) => f.type === "asset" && f.fileName.endsWith(".css"));
        if (page?.type !== "asset" || scripts.length !== 1 || styles.length !== 1)
          throw new Error(`want one page, script and style, got ${files.map((f) => f.fileName).join(", ")}`);
        const script = scripts[0].code.replaceAll("</script", "<\\/script");
        const style = String((styles[0] as { source: string | Uint8Array }).source);
        const hash = createHash("sha256").update(script).digest("base64");
        const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;
        let html = String(page.source);
        const replace = (what: RegExp, by: string) => {
          if (html.match(what)?.length !== 1) throw new Error(`report.html: not exactly one ${what}`);
          html = html.replace(what, () => by); // a function: in a string "$" has a meaning
        };
        replace(/<!-- policy -->/g, `<meta http-equiv="Content-Security-Policy" content="${policy}">`);
        replace(/<script type="module"[^>]*src=[^>]*><\/script>/g, `<script type="module">${script}</script>`);
        replace(/<link rel="stylesheet"[^>]*>/g, `<style>${style}</style>`);
        page.source = html;
        for (const f of [...scripts, ...styles]) delete bundle[f.fileName];
      },
    },
  };
}

export default defineConfig({
  root: import.meta.dirname,
  plugins: [selfContained()],
  build: {
    outDir: "../internal/report/page/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    chunkSizeWarningLimit: 1024,
    rollupOptions: { input: "report.html" },
  },
});
