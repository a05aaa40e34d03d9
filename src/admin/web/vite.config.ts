import { defineConfig } from "vite";

// One script and one style sheet under names that don't change: they are committed, and served by the binary.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "dist",
    modulePreload: false,
    rolldownOptions: { output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false } },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8788" } },
});
