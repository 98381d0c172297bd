import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server of `pilotage serve`; pages of another origin need its option --allow-origin.
export default defineConfig({
  plugins: [react()],
  server: { port: 5173, proxy: { "/teller": "http://127.0.0.1:8000" } },
  build: { minify: false, sourcemap: false, chunkSizeWarningLimit: 100_000 },
});
