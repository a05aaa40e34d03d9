// Loaded before every script: a warning is a failure.
process.on('warning', (warning) => {
  console.error('warning:', warning.stack ?? warning);
  process.exitCode = 1;
});
const { warn, error } = console;
console.warn = (...words) => { process.exitCode = 1; warn('console.warn:', ...words); };
console.error = (...words) => { process.exitCode = 1; error(...words); };
