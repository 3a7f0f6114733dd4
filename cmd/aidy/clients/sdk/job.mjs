// What every script shares: a job comes in the variable AIDY_JOB, its result goes out on
// standard output, both as one JSON object. A call that shall be left before it is
// answered is left when standard input ends.
//
// A job has base, key and model (or environment, where the SDK shall find the first two
// there), stream, retries, and for its task system, prompt, image
// (a PNG in base64) and think (the model shall reason). A result has text, and where the task
// has them usage {input, output}, calls [{name, args}], value, aborted or error.
// address gives an SDK its options, unless the environment shall.
export const address = (job, options) => (job.environment ? {} : options);

// run does the job with the task that the job names.
export async function run(tasks) {
  const job = JSON.parse(process.env.AIDY_JOB);
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

// sendable is a turn as it may be sent back: without what the SDK adds to a stream, and
// without the thoughts that compatible servers tell; the API has no field for either.
export const sendable = (turn) =>
  JSON.parse(JSON.stringify(turn, (name, value) => (['parsed', 'parsed_arguments', 'reasoning_content'].includes(name) ? undefined : value)));

// abandoned collects the text of a call that is left: a stream after its first piece,
// another call when standard input ends. It says whether the call was left.
export async function abandoned(job, pieces) {
  const controller = new AbortController();
  if (!job.stream) process.stdin.on('end', () => controller.abort()).resume();
  let text = '';
  try {
    for await (const piece of pieces(controller.signal)) {
      text += piece;
      if (job.stream && piece !== '') controller.abort();
    }
  } catch (e) {
    if (!controller.signal.aborted) throw e;
  }
  return { text, aborted: controller.signal.aborted };
}
