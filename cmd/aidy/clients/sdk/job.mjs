// What every script shares: a job comes in on standard input, its result goes out on
// standard output, both as one JSON object.
//
// A job has base, key and model, stream, retries, and for its task system, prompt, image
// (a PNG in base64), think (the model shall reason) and abortAfter (milliseconds). A result has text, and where the task
// has them usage {input, output}, calls [{name, args}], value, aborted or error.
import { readFileSync } from 'node:fs';

// run does the job with the task that the job names.
export async function run(tasks) {
  const job = JSON.parse(readFileSync(0, 'utf8'));
  let result;
  try {
    result = await tasks[job.task](job);
  } catch (e) {
    result = { error: { name: e.constructor.name, status: e.status ?? e.statusCode ?? 0, message: String(e.message) } };
  }
  process.stdout.write(JSON.stringify(result));
}

// tools are what the model may call. Their results are told apart by their arguments.
export const tools = [
  {
    name: 'weather',
    description: 'Tells the weather of a city.',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', description: 'Name of the city' } },
      required: ['city'],
      additionalProperties: false,
    },
    call: ({ city }) => `sunny in ${city}`,
  },
  {
    name: 'clock',
    description: 'Tells the time of a zone.',
    parameters: {
      type: 'object',
      properties: { zone: { type: 'string' }, day: { type: 'integer' } },
      required: ['zone', 'day'],
      additionalProperties: false,
    },
    call: ({ zone, day }) => `noon in ${zone} on day ${day}`,
  },
];

// call runs a tool and notes the call.
export function call(calls, name, args) {
  calls.push({ name, args });
  return tools.find((t) => t.name === name).call(args);
}

// schema is what a structured answer has to fit.
export const schema = {
  type: 'object',
  properties: { city: { type: 'string' }, degrees: { type: 'integer' }, warm: { type: 'boolean' } },
  required: ['city', 'degrees', 'warm'],
  additionalProperties: false,
};

// leaving gives a signal that ends a call: after the first piece of a stream, which the
// caller tells, or after a time where there are no pieces.
export function leaving(job) {
  const controller = new AbortController();
  const timer = job.stream ? undefined : setTimeout(() => controller.abort(), job.abortAfter);
  return { signal: controller.signal, leave: () => controller.abort(), done: () => clearTimeout(timer) };
}

// abandoned collects the text of a call that is left, and says how it ended.
export async function abandoned(job, pieces) {
  const { signal, leave, done } = leaving(job);
  let text = '';
  try {
    for await (const piece of pieces(signal)) {
      text += piece;
      if (job.stream && piece !== '') leave();
    }
  } catch (e) {
    if (!signal.aborted) throw e;
  }
  done();
  return { text, aborted: signal.aborted };
}
