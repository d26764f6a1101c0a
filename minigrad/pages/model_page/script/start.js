// Begin: take the table and the weights out of the page.

function bytesOf(base64) {
  const binary = atob(base64), bytes = new Uint8Array(binary.length);
  for (let n = 0; n < bytes.length; n++) bytes[n] = binary.charCodeAt(n);
  return bytes;
}

const content = JSON.parse($("content").textContent);
let view = null;
try {
  view = new (content.chat ? ChatView : View)(content, bytesOf($("weights").textContent));
} catch (error) {
  $("status").textContent = `This browser cannot run the model: ${error.message}`;
  throw error;
}
